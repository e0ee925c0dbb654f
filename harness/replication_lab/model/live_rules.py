"""What the live view computes of each second: the most commits that its links allow, and the commits' percentiles."""

from collections.abc import Sequence

from replication_lab.model.live import Latency
from replication_lab.model.timeline import quantile


def law(clients: int, rate: float, trip_ms: float | None) -> float | None:
    """Return the most commits a second: clients / round trip, and at most the load's rate (0: no limit).

    None without clients, or if commits wait for no round trip.
    """
    if not clients or not trip_ms:
        return None
    most = clients * 1000 / trip_ms
    return round(min(most, rate) if rate else most, 3)


def latency_of(commits_ms: Sequence[float]) -> Latency | None:
    """Return the percentiles of one second's commits."""
    if not commits_ms:
        return None
    ordered = sorted(commits_ms)
    p50, p95, p99 = (quantile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Latency(p50, p95, p99, len(ordered))
