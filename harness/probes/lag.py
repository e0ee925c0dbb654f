"""How many rows replicas are behind their source, by counting transactions of one row each."""

from dataclasses import dataclass, field

from harness.stats import Interval, NoInterval, slope
from harness.world import clock
from harness.world.sql import Server


@dataclass
class Lag:
    """Readings of several replicas: moments in seconds from the first one, and rows behind at each by replica."""

    source: Server
    replicas: dict[str, Server]
    at: list[float] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)
    began: float = 0.0

    def read(self) -> dict[str, int]:
        """Rows behind now. Replicas are asked first, so that they are never flattered."""
        now = clock.timer()
        self.began = self.began if self.at else now
        applied = {name: server.transactions() for name, server in self.replicas.items()}
        written = self.source.transactions()
        self.at.append(round(now - self.began, 3))
        for name, count in applied.items():
            self.rows.setdefault(name, []).append(written - count)
        return {name: written - count for name, count in applied.items()}

    @property
    def since(self) -> float:
        """Seconds since the first reading."""
        return clock.timer() - self.began

    def slope(self, replica: str, first: float, last: float) -> Interval | None:
        """Rows a second that a replica fell further behind between two moments; negative where it caught up.

        None where there are too few readings for one.
        """
        chosen = [(at, rows) for at, rows in zip(self.at, self.rows[replica], strict=True) if first <= at <= last]
        try:
            return slope([at for at, _ in chosen], [rows for _, rows in chosen])
        except NoInterval:
            return None

    @property
    def samples(self) -> dict[str, list[float]]:
        """For the record: when was read (s), and what of each replica."""
        return {"at_s": self.at} | {f"lag_{name}": [float(count) for count in rows] for name, rows in self.rows.items()}
