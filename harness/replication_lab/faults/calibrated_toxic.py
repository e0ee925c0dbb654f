"""A toxic on links that have no other, calibrated to its file's round trip, for the duration of a measured load."""

from collections.abc import Sequence

from replication_lab.faults._links import OnLinks
from replication_lab.faults.toxic_calibration import calibrated, clear
from replication_lab.faults.toxic_watch import realised
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import Toxic
from replication_lab.world.docker.lab import Lab


class CalibratedToxic(OnLinks):
    """Links without a toxic that get one; recovery removes it again."""

    def __init__(self, lab: Lab, links: Sequence[str], toxic: Toxic):
        super().__init__(lab, links)
        self.toxic = toxic

    def inject(self) -> None:
        self.each(lambda name: calibrated(self.running[name], self.toxic, self.probes[name]))

    def acts(self, name: str) -> Proof:
        found, ok = realised(self.toxic, self.probes[name], self.before_ms[name])
        return Proof(
            what=f"{name} is {self.toxic.name}", expected="round trips as its file defines them", found=found, ok=ok
        )

    def recover(self) -> None:
        self.each(lambda name: clear(self.running[name]))
