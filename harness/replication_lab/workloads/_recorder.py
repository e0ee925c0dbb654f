"""Transactions that read and write rows together, with a note of what each did, as they are where clients run."""

from dataclasses import dataclass, field
from random import Random

from replication_lab.model.isolation.transactions import Key, Op
from replication_lab.world import clock
from replication_lab.world.mysql.server import Cursor

MOST_OPS, READS = 4, 0.5


@dataclass
class HistoryRecorder:
    """Does the transactions of one client on the rows of a table, and keeps what each read and wrote.

    Rows with an odd id hold a list. `version` is the last one that this client made, and no other client makes it.
    """

    table: str
    rows: int
    version: int
    reads_only: bool = False
    did: list[tuple[float, list[Op]]] = field(default_factory=list)

    def __call__(self, cursor: Cursor, dice: Random) -> None:
        did = list[Op]()
        self.did.append((clock.timer(), did))
        for _ in range(1 if self.reads_only else dice.randint(1, MOST_OPS)):
            key = dice.randrange(self.rows)
            reads = self.reads_only or dice.random() < READS
            # A value's new version is known to follow the one that was read before.
            if reads or not is_list(key):
                did.append(self._read(cursor, key))
            if not reads:
                self._write(cursor, key, did)

    def _read(self, cursor: Cursor, key: Key) -> Op:
        cursor.execute(f"SELECT n, list FROM {self.table} WHERE id = {key}")
        [value, text] = cursor.fetchone() or (None, "")
        if not is_list(key):
            return Op("read", key, value)
        found = elements(text)
        return Op("read", key, found[-1] if found else None, found)

    def _write(self, cursor: Cursor, key: Key, did: list[Op]) -> None:
        # Recorded before it is sent: it may be seen though its transaction is rolled back.
        self.version += 1
        did.append(Op("append" if is_list(key) else "write", key, self.version))
        new = f"list = CONCAT(list, ',', {self.version})" if is_list(key) else f"n = {self.version}"
        cursor.execute(f"UPDATE {self.table} SET {new} WHERE id = {key}")


def recorder(table: str, rows: int, client: int, *, reads_only: bool) -> HistoryRecorder:
    """Return that of a client, whose versions begin with its number."""
    return HistoryRecorder(table, rows, client * 1_000_000, reads_only)


def is_list(key: Key) -> bool:
    return key % 2 == 1


def elements(text: str) -> tuple[int, ...]:
    """Return the elements of a list as it is in a row."""
    return tuple(map(int, filter(None, text.split(","))))
