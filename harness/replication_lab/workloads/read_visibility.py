"""The session that sees a row first: its writer, by the acknowledgement of the commit, or another session."""

import threading
from dataclasses import dataclass

from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

# Thread switches and the reader's own query take a few ms on a busy machine; a WAN's round trip is far longer.
CLOCK_MS = 10.0


@dataclass(frozen=True)
class FirstSeen:
    """`rows` inserts by one writer while another session queries for each of them without pause."""

    rows: int = 10

    def run(self, lab: Lab, _seed: int) -> PlainOutcome:
        """Insert and time the rows, by one clock in one process, when the answers arrive.

        The samples are how long before its writer's answer another session read each row, in ms (negative: after).
        """
        server = lab.node(lab.topology.source.name).server()
        with server.session() as writer, server.session() as reader:
            ahead_ms = [self._ahead(writer, reader) for _ in range(self.rows)]
        figures = {
            "trials": len(ahead_ms),
            "seen_early": sum(ahead > CLOCK_MS for ahead in ahead_ms),
            "seen_ahead_ms": round(sorted(ahead_ms)[len(ahead_ms) // 2], 3),
        }
        return PlainOutcome(len(ahead_ms), figures, {"ahead_ms": ahead_ms})

    def _ahead(self, writer, reader) -> float:
        with reader.cursor() as cursor:
            cursor.execute("SELECT COALESCE(MAX(id), 0) FROM foo")
            (last,) = cursor.fetchone()
        seen: list[float] = []
        looker = threading.Thread(target=self._look, args=(reader, last, seen), daemon=True)
        looker.start()
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO foo (text) VALUES ('seen')")
        answered = clock.timer()
        looker.join()
        return (answered - seen[0]) * 1000

    def _look(self, reader, last: int, seen: list[float]) -> None:
        with reader.cursor() as cursor:
            while not cursor.execute(f"SELECT id FROM foo WHERE id > {int(last)} LIMIT 1"):
                pass
        seen.append(clock.timer())
