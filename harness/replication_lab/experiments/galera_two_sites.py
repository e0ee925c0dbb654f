"""How many round trips does a commit of a Galera cluster take over two sites?"""

from replication_lab import Inserts, experiment

experiment(topology="galera", load=Inserts(seconds=3, keeps_samples=False))
