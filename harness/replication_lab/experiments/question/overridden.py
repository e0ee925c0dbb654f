"""Refuse a setting for all nodes that would have no effect, because each node has a value of its own."""

from collections.abc import Sequence

from replication_lab.experiments.question.topologies import nodes_with_servers
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.disks import is_of_disks
from replication_lab.model.question.question import OWN, Question


def refuse_overridden(question: Question, topology: Topology) -> None:
    """Raise LabError for a setting of all servers, or of all replicas' disks, that applies to no node."""
    asked = [*question.vary, *question.settings]
    for name in asked:
        if name in OWN or "." in name:
            continue
        nodes: Sequence[str] = nodes_with_servers(topology)
        if is_of_disks(name):
            nodes = [node.name for node in topology.replicas]
        own = [f"{node}.{name}" for node in nodes]
        if own and set(own) <= set(asked):
            raise LabError(
                f"{name} would change nothing: {', '.join(own)} {'are' if len(own) > 1 else 'is'} given as well",
                f"{name} for all nodes, or values for single nodes",
                f"leave out {name}",
            )
