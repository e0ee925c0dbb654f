"""What does one far member of three cost a MySQL group, with every member and with only the primary as Paxos leader?"""

from replication_lab import Inserts, experiment

experiment(topology="group", engines=("mysql-8.0", "mysql"), load=Inserts(seconds=2, keeps_samples=False))
