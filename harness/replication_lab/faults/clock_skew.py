"""A wrong server clock: only the wall clock is shifted; timers and sleeps stay correct."""

from collections.abc import Sequence
from contextlib import suppress

from replication_lab import replication
from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import Need, Setting
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

# The server reads its clock once a second, in whole seconds.
PATIENCE_SECONDS, TOLERANCE_SECONDS = 20, 2
OWN_CONTAINER = Need(
    "nodes in containers",
    lambda topology, _: not replication.kind_of(topology).in_machines,
    "the clock of a virtual machine",
    "a server that runs in a container",
)


def _check_skew(where: str, skew: int) -> None:
    if not skew:
        raise SKEW.refusal(where, "clock", skew, 'the fault "clock", and a "skew" other than 0')


# In seconds; a positive skew sets the clock ahead.
SKEW = Setting("skew", 0, "a skew of {} s", _check_skew)


@fault(
    "clock",
    does="sets the server's wall clock `skew` seconds off; timers and sleeps keep real time",
    proof="the server reports the shifted time; after recovery: it reports the right time",
    settings=(SKEW,),
    needs=(OWN_CONTAINER,),
    moves_clocks=True,
)
class ClockSkew(OnNodes):
    """Nodes whose time jumps by this many seconds, and jumps back on recovery."""

    def __init__(self, lab: Lab, nodes: Sequence[str], skew: int):
        super().__init__(lab, nodes)
        self.skew = skew

    def inject(self) -> None:
        self.each(lambda node: self.lab.node(node).set_clock(self.skew))

    def acts(self, node: str) -> Proof:
        return self._is_off(node, self.skew)

    def recover(self) -> None:
        # A server that was killed during the fault starts with the right time.
        self.each(self._set_right)

    def _set_right(self, node: str) -> None:
        if self.lab.node(node).state()[0] == "running":
            self.lab.node(node).set_clock(0)

    def is_undone(self, node: str) -> Proof:
        return self._is_off(node, 0)

    def _is_off(self, node: str, expected: int) -> Proof:
        with suppress(LabError):
            said = f"the clock of {node} to be {expected:+d} s off"
            clock.wait_until(lambda: self._near(node, expected), said, PATIENCE_SECONDS)
        found = self.lab.node(node).server().seconds_ahead()
        return Proof(
            what=f"{node}'s clock is {expected:+d} s off" if expected else f"{node}'s clock is right again",
            expected=f"{expected:+d} s, within {TOLERANCE_SECONDS} s",
            found=f"{found:+.0f} s",
            ok=abs(found - expected) <= TOLERANCE_SECONDS,
        )

    def _near(self, node: str, expected: int) -> bool:
        return abs(self.lab.node(node).server().seconds_ahead() - expected) <= TOLERANCE_SECONDS
