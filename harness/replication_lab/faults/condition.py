"""A condition on links, in place of the toxics that they have or in addition to them; it can change while it acts."""

from collections.abc import Sequence

from replication_lab.faults._links import OnLinks
from replication_lab.faults.fault import fault
from replication_lab.faults.link_proof import prove_link
from replication_lab.faults.toxic_calibration import calibrated, exchange
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS, Setting
from replication_lab.model.lab.toxic import PACKET_KINDS, Toxic, ToxicBody
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

NONE = "none"
# The most measurements of calibrated links that are not as asked: a busy machine lengthens some round trips.
LOOKS = 3


def toxic_of(condition: str, kind: str = "condition") -> Toxic:
    """Return the toxic of a condition, which may be `none`."""
    return Toxic(NONE, "A link without toxics.", ()) if condition == NONE else catalogue.toxic(condition, kind)


CONDITION = Setting(
    "condition", "", "the condition {}", lambda where, condition: toxic_of(condition, f"condition in {where}")
)
TOXIC = Setting("toxic", "", "the toxic {}", lambda where, toxic: catalogue.toxic(toxic, f"toxic in {where}"))


@fault(
    "toxic",
    acts_on=LINKS,
    does="adds a toxic to those of the link: a condition in numbers (`40ms+20mbit`) or a file of `toxics/`; it sets a "
    "latency or a rate, loses, duplicates or reorders packets, makes a black hole or a one-way link, or resets "
    "connections",
    proof="round trips are longer by the toxic's delay or get no answer, the rate is not exceeded, the kernel counts "
    "the share of the packets, or connections end; after recovery: toxics and round trip are as before the fault",
    settings=(TOXIC,),
)
@fault(
    "condition",
    acts_on=LINKS,
    does="replaces the link's toxics by a condition in numbers (`40ms+20mbit`), by a file of `toxics/`, or by `none`",
    proof="the link has exactly these toxics; the measured round trip and rate agree with them, or nothing passes; "
    "after recovery: toxics and round trip are as before",
    settings=(CONDITION,),
)
class LinkCondition(OnLinks):
    """Links with another condition, or with a `toxic` in addition; recovery restores what they had when this was made.

    With `calibrate` it is corrected until the links are as requested. Meanwhile they have no toxic for a moment, so no
    client may use them yet. With `in_use` they may be slower than requested: others use them, or the machine is busy.
    """

    in_use = False

    def __init__(
        self, lab: Lab, links: Sequence[str], condition: str | Toxic = NONE, toxic: str = "", calibrate: bool = False
    ):
        super().__init__(lab, links)
        self._had = {name: link.toxics() for name, link in self.running.items()}
        self.added, self._calibrate = bool(toxic), calibrate
        self.asked = condition if isinstance(condition, Toxic) else toxic_of(toxic or condition)

    def inject(self) -> None:
        self.each(self._put)

    def _put(self, name: str) -> None:
        link = self.running[name]
        if self._calibrate:
            calibrated(link, self.asked, self.probes[name])
        elif not self.added:
            exchange(link, self.asked.bodies)
        else:
            self._refuse_replacing(name)
            for body in self.asked.bodies:
                link.add(body)

    def _refuse_replacing(self, name: str) -> None:
        there = {(found.type, found.stream) for found in self.running[name].toxics()}
        for body in self.asked.of_packets:
            if (body.type, body.stream) in there:
                raise LabError(
                    f"link {name} already has a {PACKET_KINDS[body.type]}, and {self.asked.name} would replace it",
                    "a link without it, or the fault `condition`",
                    "./lab drill",
                )

    def change(self, condition: str) -> None:
        """Give the links another condition; at no moment have they none."""
        self.asked = toxic_of(condition)
        self.inject()

    def verify(self) -> list[Proof]:
        for _ in range(LOOKS if self._calibrate else 1):
            proofs = super().verify()
            if all(proof.ok for proof in proofs):
                break
        return proofs

    def acts(self, name: str) -> Proof:
        """Prove that a link has the toxics of the condition, and behaves as they ask."""
        if not self.asked.silences and not self.asked.resets:
            self._renew_ended(name)
        beside_ms = self.before_ms[name] if self.added else None
        return prove_link(self.probes[name], self.asked, beside_ms=beside_ms, in_use=self.in_use)

    def _renew_ended(self, name: str) -> None:
        """Make a new connection if a condition before this one, or the death of the far end, ended the old one."""
        try:
            if self.probes[name].ping() is None:
                self.renew(name)
        except LabError:
            return  # nothing passes, as the proof will say

    def recover(self) -> None:
        self.each(self._take_off)

    def _take_off(self, name: str) -> None:
        """Restore what a link had; of a toxic that was added only itself, because other faults may have added more."""
        link, had = self.running[name], self._had[name]
        if not self.added:
            exchange(link, had)
            return
        there = {found.name for found in link.toxics()} - {body.name for body in had}
        for body in self.asked.bodies:
            if body.name in there:
                link.remove(body.name)

    def verify_recovered(self) -> list[Proof]:
        return [*(self._same_toxics(name) for name in self.running), *super().verify_recovered()]

    def _same_toxics(self, name: str) -> Proof:
        had, has = (sorted(found, key=lambda one: one.name) for found in (self._had[name], self.running[name].toxics()))
        return Proof(what=f"toxics of {name}", expected=_said(had), found=_said(has), ok=had == has)


def _said(toxics: Sequence[ToxicBody]) -> str:
    said = []
    for toxic in toxics:
        attributes = [f"{name}={three_digits(value)}" for name, value in sorted(toxic.attributes.items())]
        said.append(" ".join([toxic.name, *attributes]))
    return ", ".join(said) or "none"
