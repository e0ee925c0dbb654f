"""What does one far node of three cost a Galera cluster, with its default and with wide send windows?"""

from replication_lab import Inserts, experiment

experiment(topology="galera", load=Inserts(seconds=3, keeps_samples=False))
