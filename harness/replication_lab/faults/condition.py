"""Another condition on links, in place of the toxics that they have; it can be changed while it acts."""

from collections.abc import Sequence

from replication_lab.faults._replaced import ReplacedToxics
from replication_lab.faults.fault import fault
from replication_lab.faults.packet_watch import said_of_packets
from replication_lab.faults.toxic_calibration import exchange
from replication_lab.faults.toxic_watch import SILENCE_SECONDS, realised
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS, Setting
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

NONE = "none"


def toxic_of(condition: str, kind: str = "condition") -> Toxic:
    """Return the toxic of a condition, which may be `none`."""
    return Toxic(NONE, "A link without toxics.", ()) if condition == NONE else catalogue.toxic(condition, kind)


def _check_condition(where: str, condition: str) -> None:
    toxic_of(condition, f"condition in {where}")


CONDITION = Setting("condition", "", "the condition {}", _check_condition)


@fault(
    "condition",
    acts_on=LINKS,
    does="replaces the link's toxics by a condition in numbers (`40ms+20mbit`), by a file of `toxics/`, or by `none`",
    proof="the link has exactly these toxics; the measured round trip and rate agree with them, or nothing passes; "
    "after recovery: toxics and round trip are as before",
    settings=(CONDITION,),
)
class LinkCondition(ReplacedToxics):
    """Links with another condition; recovery restores the toxics that they had when this was made."""

    def __init__(self, lab: Lab, links: Sequence[str], condition: str = NONE):
        super().__init__(lab, links)
        self.asked = toxic_of(condition)

    def inject(self) -> None:
        self.each(lambda name: exchange(self.running[name], self.asked.bodies))

    def change(self, condition: str) -> None:
        """Give the links another condition; at no moment have they none."""
        self.asked = toxic_of(condition)
        self.inject()

    def verify(self) -> list[Proof]:
        """Prove that each link has exactly the toxics of the condition, and behaves as they ask."""
        asked = self.asked
        return self.each(lambda name: self._is_as_asked(name, asked))

    def _is_as_asked(self, name: str, asked: Toxic) -> Proof:
        found, ok = self._behaves(name, asked)
        has, wanted = self._names(name), sorted({body.name for body in asked.bodies})
        if has != wanted:
            found, ok = f"the toxics {', '.join(has) or 'none'}", False
        return Proof(what=f"{name} is {asked.name}", expected=_expected(asked), found=found, ok=ok)

    def _behaves(self, name: str, asked: Toxic) -> tuple[str, bool]:
        """Measure a link; return the result in words, and whether it is as asked."""
        if asked.silences or asked.resets:
            answered = self._answers(name)
            return ("a round trip completes", False) if answered else ("no round trip completes", True)
        try:
            probe = self._fresh_probe(name)
        except LabError:
            return "no round trip completes", False
        trip = probe.ping()
        # Without a delay the link's own round trip is whatever it is: that it has no toxics is what counts.
        return realised(asked, probe, trip or 0.0)

    def _answers(self, name: str) -> bool:
        try:
            return bool(self.probes[name].answer_within(SILENCE_SECONDS))
        except TimeoutError:
            return False

    def _fresh_probe(self, name: str) -> RoundTrip:
        """Return the link's probe, with a new connection if a condition before this one ended the old one."""
        if self.probes[name].ping() is None:
            self.renew(name)
        return self.probes[name]

    def _names(self, name: str) -> list[str]:
        return sorted({found.name for found in self.running[name].toxics()})


def _expected(asked: Toxic) -> str:
    if asked.silences or asked.resets:
        return "no answer across it"
    parts = [
        *([f"a round trip of {three_digits(asked.round_trip_ms)} ms"] if asked.round_trip_ms else []),
        *([f"{asked.rate_kbps} KB/s"] if asked.rate_kbps else []),
        *([said_of_packets(asked)] if asked.of_packets else []),
    ]
    return " and ".join(parts) or "no delay"
