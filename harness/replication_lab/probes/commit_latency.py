"""The time that a commit takes: single-row inserts, each timed by itself, in a table of the probe's own."""

import time

from replication_lab.world import at_once, clock
from replication_lab.world.mysql.server import Server

SCHEMA, NAME = "lab", "commit_probe"
TABLE = f"{SCHEMA}.{NAME}"


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
