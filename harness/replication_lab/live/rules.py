"""What the live view computes of each second: the trip that a commit waits for, the law, the commits' percentiles."""

from collections.abc import Callable, Mapping, Sequence

from replication_lab.model.drill.timeline import quantile
from replication_lab.model.live.view import Latency

# A commit waits for one of the links that carry it. Here is the place of its round trip in the list of theirs, the
# shortest first.
WAITS: Mapping[str, Callable[[int], int]] = {
    "nearest": lambda _nodes: 0,
    # The node itself needs no trip: of three nodes the nearest peer makes two.
    "majority": lambda nodes: nodes // 2 - 1,
    "farthest": lambda _nodes: -1,
}


def waited(waits_on: str, trips: Sequence[float | None], nodes: int) -> float | None:
    """Return the round trip in ms that each commit waits for; None if it waits for none, or for a silent link.

    `trips` are the round trips of the links that carry it to the other nodes; None for a link that is silent.
    """
    known = sorted(trip for trip in trips if trip is not None)
    if not known or not waits_on:
        return None
    place = WAITS[waits_on](nodes)
    return known[place] if place < len(known) else None


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
