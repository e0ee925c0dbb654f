"""Are transactions isolated from each other without any fault, on one node and on several?"""

from replication_lab import Case, Lab, Preset, experiment
from replication_lab.experiments.question.experiment import settle
from replication_lab.workloads.histories import Histories
from replication_lab.world import catalogue

TOPOLOGY = "single"


def workload(case: Case, preset: Preset) -> Histories:
    """Return the transactions of a case: on all nodes of a Galera cluster, else on the source, with reads elsewhere."""
    topology = catalogue.topology(case.lab.topology if case.lab else TOPOLOGY)
    seconds = preset.sizes["seconds"]
    if "galera" in topology.name:
        return Histories(case.state.clients, seconds)
    copies = tuple(node.name for node in topology.replicas)
    return Histories(case.state.clients, seconds, nodes=(topology.source.name,), readers=copies)


def prepare(lab: Lab) -> None:
    settle(lab)
    Histories().prepare(lab)


experiment(topology=TOPOLOGY, engines=("mariadb", "mysql-8.0"), load=workload, prepare=prepare)
