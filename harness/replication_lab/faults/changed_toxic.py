"""A condition in place of the toxics of links, calibrated; recovery puts back exactly what was there."""

from collections.abc import Sequence

from replication_lab.faults._links import Links
from replication_lab.faults.calibrated_toxic import CalibratedToxic
from replication_lab.faults.toxic_calibration import bodies_of, clear, exchange
from replication_lab.model.proof import Proof
from replication_lab.model.toxic import Toxic, ToxicBody
from replication_lab.world.docker.lab import Lab

# The most measurements of links that are not as asked.
LOOKS = 3


class ChangedToxic:
    """Links that get another condition than they have; recovery restores their toxics and proves the round trip."""

    def __init__(self, lab: Lab, links: Sequence[str], toxic: Toxic):
        self.lab, self.links, self.toxic = lab, Links(lab, links), toxic
        self._running = {name: lab.link(name) for name in links}
        self._had = {name: bodies_of(link) for name, link in self._running.items()}
        self._inner: CalibratedToxic | None = None

    def inject(self) -> None:
        for link in self._running.values():
            clear(link)
        # It measures the bare link when it is made.
        self._inner = CalibratedToxic(self.lab, list(self._running), self.toxic)
        self._inner.inject()

    def verify(self) -> list[Proof]:
        """Measure the links; again if one is not as asked, since a busy machine lengthens some round trips."""
        for _ in range(LOOKS):
            proofs = self._inner.verify() if self._inner else []
            if all(proof.ok for proof in proofs):
                break
        return proofs

    def recover(self) -> None:
        for name, link in self._running.items():
            exchange(link, self._had[name])

    def verify_recovered(self) -> list[Proof]:
        return [*(self._same_toxics(name) for name in self._running), *self.links.as_before()]

    def _same_toxics(self, name: str) -> Proof:
        had, has = (_said(found) for found in (self._had[name], bodies_of(self._running[name])))
        return Proof(what=f"toxics of {name}", expected=had, found=has, ok=had == has)

    def close(self) -> None:
        self.links.close()
        if self._inner:
            self._inner.close()


def _said(toxics: Sequence[ToxicBody]) -> str:
    return ", ".join(sorted(f"{each.name} {each.attributes}" for each in toxics)) or "none"
