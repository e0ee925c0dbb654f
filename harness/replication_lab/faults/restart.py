"""A restart of nodes, as after an upgrade: stopped by SIGTERM and started at once."""

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES


@fault(
    "restart",
    acts_on=NODES,
    does="the node gets SIGTERM and starts again at once",
    proof="the start time is later than before; after recovery: the node serves again",
    ends_servers=True,
)
class Restart(OnNodes):
    """Nodes to restart; there is nothing to recover from."""

    def inject(self) -> None:
        self._before = {node: self.lab.node(node).started_at() for node in self.nodes}
        self.each(self._restart)

    def _restart(self, node: str) -> None:
        self.lab.node(node).stop()
        self.lab.node(node).start_again()

    def acts(self, node: str) -> Proof:
        found = self.lab.node(node).started_at()
        return Proof(
            what=f"{node} is restarted",
            expected=f"a start after {self._before[node]}",
            found=found,
            ok=found > self._before[node],
        )
