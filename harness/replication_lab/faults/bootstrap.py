"""Nodes of a Galera cluster that each go on alone: an operator's bootstrap of the wrong node, or of two at once."""

from replication_lab.faults._servers import StaysOnServers
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import Need
from replication_lab.world import clock
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.server import Server

# The longest time until a node that reaches no other knows that it has no majority, and until it goes on.
ALONE_SECONDS = 60
GALERA = Need(
    "nodes of a Galera cluster",
    lambda topology, _: topology.replication == "galera",
    "{fault} in {topology}",
    "a Galera cluster, such as the topology galera",
)


@fault(
    "bootstrap",
    does="each of the nodes, which have no majority, is bootstrapped (`pc.bootstrap`): it continues without the other "
    "nodes. Nothing undoes it",
    proof="the node is Primary, also between the readings",
    needs=(GALERA,),
)
class Bootstrap(StaysOnServers):
    """Nodes that were bootstrapped. A node that never loses its majority is an error."""

    state = "Primary"
    afterwards = "Primary"

    def begin(self, node: str) -> None:
        told = GaleraNode(self.server(node))
        clock.wait_until(lambda: not told.status().primary, f"{node} to have no majority", ALONE_SECONDS)
        self.server(node).execute(told.bootstrap)
        clock.wait_until(lambda: told.status().primary, f"{node} to continue alone", ALONE_SECONDS)

    def contrary(self, node: str, server: Server) -> str:
        return "" if GaleraNode(server).status().primary else f"{node} was non-Primary"
