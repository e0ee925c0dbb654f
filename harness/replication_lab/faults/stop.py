"""A clean shutdown of nodes: on SIGTERM a server writes its memory back to disk."""

from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill
from replication_lab.model.drill.fault import NODES


@fault(
    "stop",
    acts_on=NODES,
    does="the node gets SIGTERM; recovery starts the same containers on the same data",
    proof="exit status 0; after recovery: the node serves again",
    ends_servers=True,
)
class Stop(Kill):
    """Nodes to stop with SIGTERM; recovery starts the same containers on the same data."""

    status, said = 0, "stopped"

    def end(self, node: str) -> None:
        self.lab.node(node).stop()
