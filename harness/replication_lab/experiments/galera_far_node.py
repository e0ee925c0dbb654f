"""What does one far node of three cost a Galera cluster, with its default and with wide send windows?"""

from replication_lab.experiments._declared import experiment
from replication_lab.workloads.inserts import Inserts

experiment(topology="galera", load=Inserts(seconds=3, keeps_samples=False))
