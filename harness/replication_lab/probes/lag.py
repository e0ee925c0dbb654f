"""The number of rows that replicas are behind their source, by counting transactions of one row each."""

from dataclasses import dataclass, field
from itertools import pairwise

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import FEWEST_OF_A_SLOPE as FEWEST
from replication_lab.model.core.statistics import Interval, NoInterval, slope
from replication_lab.world import clock
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.server import Server


@dataclass
class Lag:
    """Readings of these replicas, taken one after another.

    `at` are their moments in seconds from the first one. By replica, `rows` are the rows that it was behind at each,
    and `applied` the rows that it had applied.
    """

    source: Server
    replicas: dict[str, Server]
    at: list[float] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)
    applied: dict[str, list[int]] = field(default_factory=dict)
    began: float = 0.0

    def __post_init__(self) -> None:
        # Import it before the first reading: the first import takes a second, in which nothing would be read.
        import scipy.stats  # noqa: F401 - imported for its effect only

    def read(self) -> dict[str, int]:
        """Return the rows behind now, by replica.

        The replicas are read before the source, so that their lag is never understated.
        """
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
        """Return the rows a second by which a replica's lag grew between two moments; negative where it caught up.

        None if there are too few readings for a slope.
        """
        return _slope(self._between(self.rows[replica], first, last))

    def rate(self, replica: str, first: float, last: float) -> float | None:
        """Return the rows a second that a replica applied between two moments; None if there are too few readings.

        The rate is a slope: an applier works in bursts, so the difference of two counts depends on the two moments.
        """
        counts = self._between(self.applied[replica], first, last)
        if len(counts) >= FEWEST and counts[0][1] == counts[-1][1]:
            return 0.0
        found = _slope(counts)
        return None if found is None else round(found.estimate, 3)

    def longest_pause(self, replica: str, first: float, last: float) -> float:
        """Return the longest time in seconds between two moments in which no reading showed newly applied rows."""
        counts = self._between(self.applied[replica], first, last)
        grew = [at for (_, before), (at, now) in pairwise(counts) if now > before]
        return max(later - earlier for earlier, later in pairwise([first, *grew, last]))

    def least(self, replica: str, first: float, last: float) -> int:
        """Return the fewest rows that a replica was behind between two moments; LabError if there is no reading."""
        rows = [rows for _, rows in self._between(self.rows[replica], first, last)]
        if not rows:
            found = f"the host was too busy to read the lag of {replica} from {first:.0f} to {last:.0f} s of the load"
            raise LabError(found, "a reading every half second", "./lab run raid_replica")
        return min(rows)

    def _between(self, values: list[int], first: float, last: float) -> list[tuple[float, int]]:
        return [(at, value) for at, value in zip(self.at, values, strict=True) if first <= at <= last]

    @property
    def samples(self) -> dict[str, list[float]]:
        """The samples for the record: moments of the readings (s), rows behind, rows applied since the first one."""
        behind = {f"lag_{name}": [float(count) for count in rows] for name, rows in self.rows.items()}
        applied = {f"applied_{name}": [float(now - rows[0]) for now in rows] for name, rows in self.applied.items()}
        return {"at_s": self.at} | behind | applied


def _slope(readings: list[tuple[float, int]]) -> Interval | None:
    try:
        return slope([at for at, _ in readings], [value for _, value in readings])
    except NoInterval:
        return None
