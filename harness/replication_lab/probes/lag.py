"""The number of rows that replicas are behind their source, by counting transactions of one row each."""

from dataclasses import dataclass

from replication_lab.probes.lag_readings import LagReadings
from replication_lab.world import clock
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.server import Server


@dataclass
class Lag(LagReadings):
    """Readings of these replicas, taken one after another."""

    source: Server
    replicas: dict[str, Server]
    began: float = 0.0

    def __post_init__(self) -> None:
        # Import it before the first reading: the first import takes a second, in which nothing would be read.
        import scipy.special  # noqa: F401 - imported for its effect only

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
