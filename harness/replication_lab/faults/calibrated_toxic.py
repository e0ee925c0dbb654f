"""A toxic on links that have no other, calibrated to its file's round trip, for the duration of a measured load."""

from collections.abc import Sequence

from replication_lab.faults._links import Links
from replication_lab.faults.toxic_calibration import calibrated, clear
from replication_lab.faults.toxic_watch import realised
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import Toxic
from replication_lab.world.docker.lab import Lab


class CalibratedToxic:
    """Links without a toxic that get one; recovery removes it again."""

    def __init__(self, lab: Lab, links: Sequence[str], toxic: Toxic):
        self.links, self.toxic = Links(lab, links), toxic
        self._running = {name: lab.link(name) for name in links}

    def inject(self) -> None:
        self.links.each(lambda name: calibrated(self._running[name], self.toxic, self.links.probes[name]))

    def verify(self) -> list[Proof]:
        return self.links.each(self._is_as_asked)

    def _is_as_asked(self, name: str) -> Proof:
        found, ok = realised(self.toxic, self.links.probes[name], self.links.before_ms[name])
        return Proof(
            what=f"{name} is {self.toxic.name}", expected="round trips as its file defines them", found=found, ok=ok
        )

    def recover(self) -> None:
        self.links.each(lambda name: clear(self._running[name]))

    def verify_recovered(self) -> list[Proof]:
        return self.links.as_before()

    def close(self) -> None:
        self.links.close()
