"""Frozen nodes: their processes get no CPU and their connections stay open, so that no peer sees an error."""

from functools import partial

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock

SILENCE_SECONDS = 0.5


@fault(
    "pause",
    acts_on=NODES,
    does="the node is frozen: it gets no CPU, and connections stay open",
    proof="a new connection gets no answer; after recovery: the node serves again",
)
class Pause(OnNodes):
    """Nodes to freeze; after recovery they continue where they were."""

    def inject(self) -> None:
        self.each(lambda node: self.lab.node(node).pause())

    def acts(self, node: str) -> Proof:
        # A machine without a running server answers no query; its container's state shows whether it is frozen.
        answers, state = self._answers(node), self.lab.node(node).state()[0]
        return Proof(
            what=f"{node} is frozen",
            expected=f"no answer within {SILENCE_SECONDS:g} s, paused",
            found=f"{'an answer' if answers else 'no answer'}, {state}",
            ok=not answers and state == "paused",
        )

    def _answers(self, node: str) -> bool:
        # A connection that is refused ends the wait.
        return bool(clock.soon(partial(self._ask, node), SILENCE_SECONDS))

    def _ask(self, node: str) -> bool:
        # A separate connection, so that the timeout does not end the lab's connection.
        self.lab.node(node).server().connect(answer_seconds=SILENCE_SECONDS).close()
        return True

    def recover(self) -> None:
        self.each(self._thaw)

    def _thaw(self, node: str) -> None:
        if self.lab.node(node).state()[0] == "paused":
            self.lab.node(node).unpause()
