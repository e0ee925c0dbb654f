"""Helpers for faults of nodes: act on all nodes at once, and wait until their containers are healthy again."""

from collections.abc import Callable, Sequence
from functools import partial

from replication_lab import replication
from replication_lab.model.errors import LabError
from replication_lab.model.proof import Proof
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab

START_SECONDS = 180


class OnNodes:
    """A fault of nodes that does nothing by itself."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        self.lab, self.nodes = lab, list(nodes)

    def each(self, act: Callable[[str], object]) -> None:
        at_once.of_each(act, self.nodes)

    def inject(self) -> None:
        raise NotImplementedError

    def verify(self) -> list[Proof]:
        raise NotImplementedError

    def recover(self) -> None:
        """Do nothing: there is nothing to undo."""

    def verify_recovered(self) -> list[Proof]:
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def runs_again(self) -> list[Proof]:
        """Wait until each server answers again, in a container that runs."""
        for node in self.nodes:
            clock.wait_until(partial(self._serves, node), f"{node} to serve again", START_SECONDS, every=0.1)
        return [Proof(what=f"{node} runs again", expected="serving", found="serving", ok=True) for node in self.nodes]

    def _serves(self, node: str) -> bool:
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
