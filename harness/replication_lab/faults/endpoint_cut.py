"""An endpoint that does not reach a node, which the failover manager and replicas still reach."""

from collections.abc import Sequence

from replication_lab.faults._cut_off import CutOff, none_to_break
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import NODES
from replication_lab.world.docker.service import Service


@fault(
    "endpoint-cut",
    acts_on=NODES,
    does="packets between the endpoint and the targets are dropped, so no client reaches them; the failover manager "
    "and replicas do",
    proof="the endpoint gets no answer of the server there; after recovery: it does",
)
class EndpointCut(CutOff):
    """Nodes that the endpoint does not reach."""

    def ways(self, nodes: Sequence[str]) -> list[tuple[Service, dict[str, str]]]:
        if self.lab.endpoint is None:
            raise none_to_break(self.lab, "endpoint")
        return [(self.lab.endpoint.service, self.addresses(nodes))]
