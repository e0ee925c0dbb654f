"""How many round trips does a commit of a Galera cluster take over two sites?"""

from replication_lab.experiments._declared import experiment
from replication_lab.workloads.inserts import Inserts

experiment(topology="galera", load=Inserts(seconds=3, keeps_samples=False))
