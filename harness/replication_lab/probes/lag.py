"""How many rows replicas are behind their source, by counting transactions of one row each."""

from dataclasses import dataclass, field
from itertools import pairwise

from replication_lab.model.errors import LabError
from replication_lab.model.statistics import FEWEST_OF_A_SLOPE as FEWEST
from replication_lab.model.statistics import Interval, NoInterval, slope
from replication_lab.world import clock
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.server import Server


@dataclass
class Lag:
    """Readings of several replicas: moments in seconds from the first one; by replica the rows that it was behind at
    each, and the rows that it had applied.
    """

    source: Server
    replicas: dict[str, Server]
    at: list[float] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)
    applied: dict[str, list[int]] = field(default_factory=dict)
    began: float = 0.0

    def __post_init__(self) -> None:
        # A slope needs it, and the first import takes a second in which nothing would be read.
        import scipy.special  # noqa: F401

    def read(self) -> dict[str, int]:
        """Rows behind now. Replicas are asked first, so that they are never flattered."""
        now = clock.timer()
        self.began = self.began if self.at else now
        counts = {name: BinaryLog(server).transactions() for name, server in self.replicas.items()}
        written = BinaryLog(self.source).transactions()
        self.at.append(round(now - self.began, 3))
        for name, count in counts.items():
            self.applied.setdefault(name, []).append(count)
            self.rows.setdefault(name, []).append(written - count)
        return {name: written - count for name, count in counts.items()}

    @property
    def since(self) -> float:
        """Seconds since the first reading."""
        return clock.timer() - self.began

    def slope(self, replica: str, first: float, last: float) -> Interval | None:
        """Rows a second that a replica fell further behind between two moments; negative where it caught up.

        None where there are too few readings for one.
        """
        return _slope(self._between(self.rows[replica], first, last))

    def rate(self, replica: str, first: float, last: float) -> float | None:
        """Rows a second that a replica applied between two moments; None where there are too few readings.

        A slope: an applier goes on in bursts, and what is counted between two moments depends on where these fall.
        """
        counts = self._between(self.applied[replica], first, last)
        if len(counts) >= FEWEST and counts[0][1] == counts[-1][1]:
            return 0.0
        found = _slope(counts)
        return found and round(found.estimate, 3)

    def longest_pause(self, replica: str, first: float, last: float) -> float:
        """Seconds between two moments in which no reading told of anything applied, at the longest."""
        counts = self._between(self.applied[replica], first, last)
        grew = [at for (_, before), (at, now) in pairwise(counts) if now > before]
        return max(later - earlier for earlier, later in pairwise([first, *grew, last]))

    def least(self, replica: str, first: float, last: float) -> int:
        """Rows that a replica was behind between two moments, at the least; LabError where nobody read them."""
        rows = [rows for _, rows in self._between(self.rows[replica], first, last)]
        if not rows:
            found = f"a busy machine left {replica} unread from {first:.0f} to {last:.0f} s of the race"
            raise LabError(found, "a reading every half second", "./lab run raid_replica")
        return min(rows)

    def _between(self, values: list[int], first: float, last: float) -> list[tuple[float, int]]:
        return [(at, value) for at, value in zip(self.at, values, strict=True) if first <= at <= last]

    @property
    def samples(self) -> dict[str, list[float]]:
        """For the record: the moments of the readings (s); rows behind, and rows applied since the first reading."""
        behind = {f"lag_{name}": [float(count) for count in rows] for name, rows in self.rows.items()}
        applied = {f"applied_{name}": [float(now - rows[0]) for now in rows] for name, rows in self.applied.items()}
        return {"at_s": self.at} | behind | applied


def _slope(readings: list[tuple[float, int]]) -> Interval | None:
    try:
        return slope([at for at, _ in readings], [value for _, value in readings])
    except NoInterval:
        return None
