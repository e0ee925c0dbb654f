"""A condition in place of the toxics of links, calibrated; recovery puts back exactly what was there."""

from collections.abc import Sequence

from replication_lab.faults._replaced import ReplacedToxics
from replication_lab.faults.calibrated_toxic import CalibratedToxic
from replication_lab.faults.toxic_calibration import clear
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import Toxic
from replication_lab.world.docker.lab import Lab

# The most measurements of links that are not as asked.
LOOKS = 3


class ChangedToxic(ReplacedToxics):
    """Links that get another condition than they have; recovery restores their toxics and proves the round trip."""

    def __init__(self, lab: Lab, links: Sequence[str], toxic: Toxic):
        super().__init__(lab, links)
        self.toxic = toxic
        self._inner: CalibratedToxic | None = None

    def inject(self) -> None:
        for link in self.running.values():
            clear(link)
        # It measures the bare link when it is made.
        self._inner = CalibratedToxic(self.lab, list(self.running), self.toxic)
        self._inner.inject()

    def verify(self) -> list[Proof]:
        """Measure the links; again if one is not as asked, since a busy machine lengthens some round trips."""
        for _ in range(LOOKS):
            proofs = self._inner.verify() if self._inner else []
            if all(proof.ok for proof in proofs):
                break
        return proofs

    def close(self) -> None:
        super().close()
        if self._inner:
            self._inner.close()
