"""A failover manager that does not reach a node, which clients and replicas still reach."""

from collections.abc import Sequence

from replication_lab.faults._cut_off import CutOff, none_to_break
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import NODES
from replication_lab.world.docker.service import Service


@fault(
    "manager-cut",
    acts_on=NODES,
    does="packets between the failover manager and the targets are dropped; clients and replicas are not affected. Of "
    "a manager beside each node, those of the targets are cut off from the other nodes",
    proof="the manager gets no answer of the server there; after recovery: it does",
)
class ManagerCut(CutOff):
    """Nodes that the manager does not reach."""

    def ways(self, nodes: Sequence[str]) -> list[tuple[Service, dict[str, str]]]:
        manager = self.lab.manager
        if manager is None:
            raise none_to_break(self.lab, "manager")
        if not manager.kind.beside_nodes:
            return [(service, self.addresses(nodes)) for service in manager.services]
        others = [node.name for node in self.lab.topology.nodes if node.name not in nodes]
        return [(service, self.addresses(others)) for service in manager.beside(nodes)]
