"""How many round trips does a commit of a Galera cluster take over two sites?"""

from replication_lab.experiments._declared import experiment
from replication_lab.experiments.question.experiment import settle
from replication_lab.workloads.inserts import Inserts
from replication_lab.world.docker.lab import Lab

LOAD = Inserts(seconds=3, keeps_samples=False)


def prepare(lab: Lab) -> None:
    """Create the table; the settings of a case are not tried first, because segments restart nodes."""
    settle(lab)
    LOAD.prepare(lab)


experiment(topology="galera", load=LOAD, prepare=prepare)
