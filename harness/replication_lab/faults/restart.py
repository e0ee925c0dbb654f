"""A restart of nodes: after a clean stop, as for an upgrade, or after a crash, as by a supervisor."""

from functools import partial

from replication_lab.faults._nodes import START_SECONDS, OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock


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
        self.end(node)
        self.lab.node(node).start_again()

    def end(self, node: str) -> None:
        self.lab.node(node).stop()

    def acts(self, node: str) -> Proof:
        found = self.lab.node(node).started_at()
        return Proof(
            what=f"{node} is restarted",
            expected=f"a start after {self._before[node]}",
            found=found,
            ok=found > self._before[node],
        )


@fault(
    "crash",
    acts_on=NODES,
    does="the node gets SIGKILL, starts again at once on its old data, and serves",
    proof="the start time is later than before; after recovery: the node serves again",
    ends_servers=True,
)
class Crash(Restart):
    """Nodes that crash and come back by themselves; they answer again when `inject` returns."""

    def end(self, node: str) -> None:
        self.lab.node(node).kill()

    def _restart(self, node: str) -> None:
        super()._restart(node)
        clock.wait_until(partial(self._answers_again, node), f"{node} to answer again", START_SECONDS, every=0.1)
