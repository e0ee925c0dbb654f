"""How far away an experiment's WAN leads: as it was published, or as `lab run --rtt` says."""

from dataclasses import dataclass

from replication_lab.faults.link_proof import NEAR_SHARE, PROXY_MS
from replication_lab.model.experiment.published import Words
from replication_lab.model.lab.toxic import Toxic
from replication_lab.world import catalogue

PUBLISHED_MS = 85
# Seconds of loads across the WAN, which a preset names as lasting_2, lasting_1_5 and so on.
LASTING = (1, 1.5, 2, 3, 30, 60)


@dataclass(frozen=True)
class Far:
    """A round trip in ms, and the toxic that makes it on a link."""

    ms: int
    toxic: Toxic

    @property
    def name(self) -> str:
        """As it is in the names of cases and claims."""
        return f"{self.ms}ms"

    @property
    def said(self) -> str:
        return f"{self.ms} ms"

    @property
    def words(self) -> Words:
        """What claims in a YAML file name; a round trip may differ from it as in the proof of a link."""
        share = self.ms * NEAR_SHARE
        near, said = (share, f"{100 * NEAR_SHARE:g} %") if share > PROXY_MS else (PROXY_MS, f"{PROXY_MS:g} ms")
        lasting = {f"lasting_{str(each).replace('.', '_')}": self.lasting(each) for each in LASTING}
        far = {"far": self.name, "toxic": self.toxic.name, "said": self.said, "ms": self.ms, "trip_ms": float(self.ms)}
        return {**far, **lasting, "near": said, "least_ms": self.ms - near, "most_ms": self.ms + near}

    def lasting(self, seconds: float) -> float:
        """Return for how long to load: as published, or longer where each client commits less often than that."""
        return round(seconds * self.ms / PUBLISHED_MS, 1) if self.ms > PUBLISHED_MS else seconds


PUBLISHED = Far(PUBLISHED_MS, catalogue.toxic("wan-85ms"))


def far(milliseconds: int) -> Far:
    """Return another distance than the published one."""
    return Far(milliseconds, catalogue.toxic(f"{milliseconds}ms"))
