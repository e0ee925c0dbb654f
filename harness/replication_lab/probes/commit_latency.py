"""The time that a commit takes: single-row inserts, each timed by itself, in a table of the probe's own."""

import time

from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.world import at_once, clock
from replication_lab.world.mysql.server import Server

SCHEMA, NAME = "lab", "commit_probe"
TABLE = f"{SCHEMA}.{NAME}"
# The two directions of a link differ by their timers; a commit that waited for no answer takes a hundredth.
WAITED_SHARE = 0.9
# What an idle link adds to a round trip, and may not add under load: a short latency is smaller by that, never by half.
LINK_MS = 0.5


class CommitLatency:
    """Commits on `server`, timed from the client; the first object of a lab creates the table."""

    def __init__(self, server: Server):
        self._server = server
        # A statement that creates nothing would be replicated too, and wait for a round trip.
        if not self._server.rows(f"SHOW TABLES FROM {SCHEMA} LIKE '{NAME}'"):
            self._server.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT AUTO_INCREMENT PRIMARY KEY, at DOUBLE)")

    def commits(self, count: int) -> list[float]:
        """Return the latencies of `count` autocommit inserts in ms, one after another."""
        return [_commit(self._server) for _ in range(count)]

    def commits_at_once(self, count: int) -> list[float]:
        """Return the latencies of inserts that begin together, each on a connection of its own: faster across a WAN.

        Each still waits for a round trip, also if the server writes all to its log at once. One stall can delay all of
        them, so a caller needs more than their latencies to prove that commits wait.
        """
        servers = [self._server, *(self._server.another() for _ in range(count - 1))]
        try:
            at_once.of_each(lambda server: server.version(), servers)
            return at_once.of_each(_commit, servers)
        finally:
            for server in servers[1:]:
                server.close()


def _commit(server: Server) -> float:
    began = clock.timer()
    server.execute(f"INSERT INTO {TABLE} (at) VALUES ({time.time():.3f})")
    return (clock.timer() - began) * 1000


def least_ms(round_trip_ms: float) -> float:
    """Return how long a commit takes at least that waits for a round trip, in ms."""
    return min(WAITED_SHARE * round_trip_ms, max(round_trip_ms - LINK_MS, round_trip_ms / 2))


def waited(latency_ms: float, round_trip_ms: float) -> bool:
    """Return whether a commit took as long as the round trip that it should have waited for."""
    return latency_ms >= least_ms(round_trip_ms)


def none_too_fast(fastest_ms: float | None, round_trip_ms: float) -> list[Proof]:
    """Prove that the fastest commit waited, where there was a commit and the link has a round trip."""
    if fastest_ms is None or not round_trip_ms:
        return []
    return [
        Proof(
            what="no commit was answered sooner than a round trip",
            expected=f"at least {three_digits(least_ms(round_trip_ms))} ms",
            found=f"{three_digits(fastest_ms)} ms",
            ok=waited(fastest_ms, round_trip_ms),
        )
    ]


def per_commit(fastest_ms: float, trip_ms: float) -> str:
    """Return how long commits took at least, also as a number of round trips if the link has one."""
    trips = f" ({fastest_ms / trip_ms:.2f} round trips)" if trip_ms else ""
    return f"at least {three_digits(fastest_ms)} ms per commit{trips}"
