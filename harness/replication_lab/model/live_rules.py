"""What the live view concludes from the states of a lab: how good one is, what a commit waits for, and the law."""

import re
from collections.abc import Mapping, Sequence

from replication_lab.model.live import Latency, Level
from replication_lab.model.timeline import quantile

# The states that nodes report (View.says of each kind of replication), by how good they are; the first that fits.
LEVELS: Sequence[tuple[str, Level]] = (
    (r"semi-sync OFF", Level.WARN),
    (r"semi-sync ON|serving|replicating|PRIMARY|SECONDARY|Primary|(Primary|Secondary), Connected", Level.GOOD),
    (r"RECOVERING|starting|(Primary|Secondary), (Sync|PausedSync|Verify|WFBitMap|WFSync)\w*", Level.WARN),
    (r"Primary, WFConnection", Level.WARN),
    (r".+", Level.BAD),
)
SEMISYNC_ON, SEMISYNC_OFF = "semi-sync ON", "semi-sync OFF"
# By the states of the node itself, which of them accepts writes.
WRITERS = {"galera": "Primary", "group": "PRIMARY", "drbd": "Primary, "}


def level_of(state: str) -> Level:
    """Return how good a node's state is; UNKNOWN without one."""
    return next((level for form, level in LEVELS if re.fullmatch(form, state)), Level.UNKNOWN)


def writer(replication: str, states: Mapping[str, str], now: str) -> str:
    """Return the node where clients write, by the states that the nodes report; `now` if none says so.

    A node that accepts writes is not left for another one.
    """
    sign = WRITERS.get(replication)
    if sign is None:
        return now
    able = [name for name, state in states.items() if (state.startswith(sign) if sign.endswith(" ") else state == sign)]
    return now if now in able or not able else able[0]


def waits_for(replication: str, state: str, trips: Sequence[float | None], nodes: int) -> float | None:
    """Return the round trip in ms that each commit waits for; None if it waits for none, or for a link that is silent.

    `state` is that of the node that is written to, `trips` are the round trips of its links to the other nodes. A
    semi-synchronous source waits for the nearest replica, a Galera cluster for its farthest node, a group for the
    nearest nodes that make a majority with the primary, DRBD for its peer.
    """
    known = sorted(trip for trip in trips if trip is not None)
    if replication == "semisync":
        return known[0] if known and state == SEMISYNC_ON else None
    if replication == "group":
        needed = nodes // 2
        return known[needed - 1] if len(known) >= needed else None
    if replication in ("galera", "drbd"):
        return known[-1] if known and state.startswith("Primary") else None
    return None


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
