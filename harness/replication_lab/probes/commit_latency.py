"""The time that a commit takes: single-row inserts timed one by one, in a table of the probe's own."""

import time

from replication_lab.world import clock
from replication_lab.world.mysql.server import Server

TABLE = "lab.commit_probe"


class CommitLatency:
    """Commits on `server`, timed from the client; the first object of a lab creates the table."""

    def __init__(self, server: Server):
        self._server = server
        # A statement that creates nothing would be replicated too, and wait for a round trip.
        if TABLE not in self._server.tables("lab"):
            self._server.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT AUTO_INCREMENT PRIMARY KEY, at DOUBLE)")

    def commits(self, count: int) -> list[float]:
        """Return the latencies of `count` autocommit inserts in ms."""
        return [self._commit() for _ in range(count)]

    def _commit(self) -> float:
        began = clock.timer()
        self._server.execute(f"INSERT INTO {TABLE} (at) VALUES ({time.time():.3f})")
        return (clock.timer() - began) * 1000
