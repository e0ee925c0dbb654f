"""Two sessions of one process, where clients run: one writes rows, the other one looks for each of them."""

import threading

from replication_lab.world import clock
from replication_lab.world.mysql.server import Connection, Server


class FirstReads:
    """A writer of rows, and who looks for them, on a server."""

    def __init__(self, server: Server):
        self._server = server

    def ahead_ms(self, rows: int) -> list[float]:
        """Return how long before its writer's answer the other session read each row, in ms (negative: after)."""
        with self._server.session() as writer, self._server.session() as reader:
            return [self._ahead(writer, reader) for _ in range(rows)]

    def _ahead(self, writer: Connection, reader: Connection) -> float:
        with reader.cursor() as cursor:
            cursor.execute("SELECT COALESCE(MAX(id), 0) FROM foo")
            [last] = cursor.fetchone() or []
        seen: list[float] = []
        looker = threading.Thread(target=self._look, args=(reader, last, seen), daemon=True)
        looker.start()
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO foo (text) VALUES ('seen')")
        answered = clock.timer()
        looker.join()
        return (answered - seen[0]) * 1000

    def _look(self, reader: Connection, last: int, seen: list[float]) -> None:
        with reader.cursor() as cursor:
            while not cursor.execute(f"SELECT id FROM foo WHERE id > {int(last)} LIMIT 1"):
                pass
        seen.append(clock.timer())
