"""The base of faults of nodes: act on all nodes at once, and wait until their servers serve again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.replication.kind import Nodes
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab

START_SECONDS, JOIN_SECONDS = 180, 60
# Members that are back see each other within this time.
LOST_SECONDS = 10


class OnNodes:
    """A fault of nodes, proved for each of them. After its recovery each server has to serve again."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        self.lab, self.nodes = lab, list(nodes)

    def each(self, act: Callable[[str], object]) -> None:
        at_once.of_each(act, self.nodes)

    def inject(self) -> None:
        raise NotImplementedError

    def verify(self) -> list[Proof]:
        return [self.acts(node) for node in self.nodes]

    def acts(self, node: str) -> Proof:
        """Prove that the fault acts on a node."""
        raise NotImplementedError

    def recover(self) -> None:
        """Do nothing: there is nothing to undo."""

    def verify_recovered(self) -> list[Proof]:
        had = [proof for node in self.nodes if (proof := self._had_effect(node))]
        return [*had, *(self.is_undone(node) for node in self.nodes)]

    def _had_effect(self, _node: str) -> Proof | None:
        """Prove, by what was read before the recovery, that the fault met some work; None if `acts` has shown that."""
        return None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def is_undone(self, node: str) -> Proof:
        """Wait until a server answers again, in a container that runs, and serves clients; prove it."""
        kind = replication.of(self.lab)
        try:
            clock.wait_until(partial(self._answers_again, node), f"{node} to answer again", START_SECONDS, every=0.1)
            why = self._hindrance(node, kind)
        except LabError as error:
            lost = kind.lost_majority()
            if lost is None:
                raise
            cause, start = error.found.partition(". Its log")[0], f"./lab start {node} --lab {self.lab.name}"
            why = f"{cause}; {lost.found}; {lost.next_step}, then {start}"
        return Proof.same(f"{node} runs again", why or "serving", "serving")

    def _hindrance(self, node: str, kind: Nodes) -> str:
        """Wait until a node serves clients; return why it does not if it is still hindered then, or cannot be helped.

        A majority counts as lost only after some time: nodes that come back find each other again.
        """
        lost_since: float | None = None

        def decided() -> bool:
            nonlocal lost_since
            if not kind.hindrance(node):
                return True
            lost_since = (lost_since or clock.timer()) if kind.lost_majority() else None
            return lost_since is not None and clock.timer() - lost_since > LOST_SECONDS

        with suppress(LabError):
            clock.wait_until(decided, f"{node} to serve clients", JOIN_SECONDS, every=0.1)
        why = kind.hindrance(node)
        lost = kind.lost_majority() or LabError("", "", f"./lab logs {node} --lab {self.lab.name}")
        return why and "; ".join(filter(None, [why, lost.found, lost.next_step]))

    def _answers_again(self, node: str) -> bool:
        status, code = self.lab.node(node).state()
        if status == "exited":
            raise LabError(
                f"{node} was restarted and exited with status {code}. Its log:\n{self.lab.node(node).logs()}",
                "a successful restart on its old data",
                f"./lab logs {node} --lab {self.lab.name}",
            )
        try:
            return replication.of(self.lab).answers(node)
        except LabError:
            return False
