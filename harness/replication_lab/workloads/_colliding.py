"""Clients as they are where clients run: their transactions collide, or one looks for the rows of another one."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random

from replication_lab.model.core.errors import LabError
from replication_lab.model.isolation.transactions import Key, Op, Version
from replication_lab.model.question.registers import Registers, RowStep
from replication_lab.world import at_once, clock
from replication_lab.world.mysql.client import Conflict, transaction
from replication_lab.world.mysql.server import Connection, Cursor, Server

# What one client does in one transaction, given a cursor and a random generator of its own.
Transact = Callable[[Cursor, Random], None]


@dataclass
class CollidingClient:
    """The result of one client: its begin and end (s), the latency of each commit (ms), and the conflicts it lost.

    `begun` are the times (s) at which its transactions began, `answered` and `lost` those of the commits and of the
    conflicts. `did` is what a transaction that keeps it did after its BEGIN was answered, at this time.
    """

    began: float
    ended: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    conflicts: dict[str, int] = field(default_factory=dict)
    begun: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    did: list[tuple[float, list[Op]]] = field(default_factory=list)

    def earlier(self, seconds: float) -> "CollidingClient":
        """Return the same with all times so many seconds earlier, as by another clock."""
        begun, answered, lost = ([at - seconds for at in times] for times in (self.begun, self.answered, self.lost))
        did = [(at - seconds, ops) for at, ops in self.did]
        began, ended = self.began - seconds, self.ended - seconds
        return replace(self, began=began, ended=ended, begun=begun, answered=answered, lost=lost, did=did)


def add_one(table: str, counters: int, cursor: Cursor, dice: Random) -> None:
    """Let the client read one of the counters of a table at random, and write the value back that is one more."""
    number = dice.randrange(counters)
    cursor.execute(f"SELECT n FROM {table} WHERE id = {number} FOR UPDATE")
    [found] = cursor.fetchone() or []
    cursor.execute(f"UPDATE {table} SET n = {found + 1} WHERE id = {number}")


def increment(table: str, cursor: Cursor, _dice: Random) -> None:
    """Let the server add one to the first counter of a table."""
    cursor.execute(f"UPDATE {table} SET n = n + 1 WHERE id = 0")


def transfer(table: str, accounts: int, most: int, cursor: Cursor, dice: Random) -> None:
    """Transfer 1 to `most` between two of the accounts of a table."""
    giver, taker = dice.sample(range(accounts), 2)
    amount = dice.randint(1, most)
    cursor.execute(f"UPDATE {table} SET balance = balance - {amount} WHERE id = {giver}")
    cursor.execute(f"UPDATE {table} SET balance = balance + {amount} WHERE id = {taker}")


class Readers:
    """A reader on each of `servers`, which asks for a number until `stop`."""

    def __init__(self, servers: Sequence[Server], query: str):
        self._servers, self._query, self._stop = servers, query, threading.Event()

    def read(self) -> list[int]:
        """Return all that was read: at least one number on each server, however short the load."""
        return [number for numbers in at_once.of_each(self._read, self._servers) for number in numbers]

    def stop(self) -> None:
        self._stop.set()

    def _read(self, server: Server) -> list[int]:
        found: list[int] = []
        with server.session() as connection, connection.cursor() as cursor:
            while not found or not self._stop.is_set():
                cursor.execute(self._query)
                [total] = cursor.fetchone() or []
                found.append(int(total))
                self._stop.wait(0.01)
        return found


def run_colliding(
    servers: Sequence[Server], transacts: Sequence[Transact], seed: int, seconds: float
) -> list[CollidingClient]:
    """Run a client for each of `servers`, which does its transaction again and again; its dice depend on `seed`.

    They run for this long, from the moment when all are connected. A transaction that lost against another one (error
    1213, 1205 or 1020) is counted and not repeated: the next has random numbers of its own. Any other error is a
    LabError, because the load is then invalid.
    """
    dice = [Random(f"{seed}:{number}") for number in range(len(servers))]
    together = threading.Barrier(len(servers))
    with ExitStack() as sessions, ThreadPoolExecutor(len(servers)) as pool:
        connections = [sessions.enter_context(server.session()) for server in servers]
        running = [
            pool.submit(_client, *each, seconds, together) for each in zip(connections, dice, transacts, strict=True)
        ]
        return [each.result() for each in running]


def _client(
    connection: Connection, dice: Random, transact: Transact, seconds: float, together: threading.Barrier
) -> CollidingClient:
    # A client that starts before the others have connected cannot conflict with them.
    together.wait()
    client = CollidingClient(began=clock.timer())
    while (began := clock.timer()) < client.began + seconds:
        client.begun.append(began)
        try:
            with transaction(connection) as cursor:
                transact(cursor, dice)
        except Conflict as conflict:
            client.conflicts[conflict.kind] = client.conflicts.get(conflict.kind, 0) + 1
            client.lost.append(clock.timer())
        else:
            client.answered.append(clock.timer())
            client.latencies_ms.append((client.answered[-1] - began) * 1000)
    client.ended = clock.timer()
    client.did = getattr(transact, "did", [])
    return client


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


def is_list(key: Key) -> bool:
    return key % 2 == 1


def elements(text: str) -> tuple[int, ...]:
    """Return the elements of a list as it is in a row."""
    return tuple(map(int, filter(None, text.split(","))))


# A column's number times this is added to the key of a row: more than any key.
KEYS = 2**32


@dataclass
class RegisterRecorder:
    """Does the transactions of one client, and keeps what each read and wrote; `version` is the next value it writes.

    Each client writes every `step`-th number from the first one that no row had before the load.
    """

    registers: Registers
    first: int
    version: int
    step: int
    did: list[tuple[float, list[Op]]] = field(default_factory=list)

    def __call__(self, cursor: Cursor, dice: Random) -> None:
        did = list[Op]()
        self.did.append((clock.timer(), did))
        transaction = dice.choice(self.registers.transactions)
        values = {name: dice.randint(drawn.low, drawn.high) for name, drawn in transaction.drawn.items()}
        for step in transaction.steps:
            self._do(cursor, step, values, did)

    def _do(self, cursor: Cursor, step: RowStep, values: dict[str, int], did: list[Op]) -> None:
        values |= {name: self._unused() for name in step.values}
        sql = "".join(str(values[piece]) if number % 2 else piece for number, piece in enumerate(step.pieces)).strip()
        key = int(values.get(step.key, step.key))
        for column, name in zip(step.writes, step.values, strict=True):
            # Recorded before it is sent: it may be seen though its transaction is rolled back.
            did.append(Op("write", self._row(step.table, column, key), values[name], sql=sql))
        cursor.execute(sql)
        if not cursor.rowcount:
            raise LabError(f"`{sql}` found no row", "a row of each key that transactions use, all through the load")
        names = [str(column[0]).lower() for column in cursor.description or ()]
        for name, value in zip(names, (cursor.fetchone() or ()) if names else (), strict=True):
            if (step.table, name) in self.registers.columns:
                did.append(Op("read", self._row(step.table, name, key), self._version(value), sql=sql))

    def _row(self, table: str, column: str, key: int) -> Key:
        return self.registers.columns.index((table, column)) * KEYS + key

    def _version(self, value: int | Decimal | None) -> Version:
        return None if value is None or value < self.first else int(value)

    def _unused(self) -> int:
        found, self.version = self.version, self.version + self.step
        if found > self.registers.values.high:
            raise LabError(
                f"all numbers up to {self.registers.values.high} were written once", "more of them", "a wider range"
            )
        return found


def read_ahead_ms(server: Server, rows: int) -> list[float]:
    """Return how long before its writer's answer another session read each row, in ms (negative: after)."""
    with server.session() as writer, server.session() as reader:
        return [_ahead_ms(writer, reader) for _ in range(rows)]


def _ahead_ms(writer: Connection, reader: Connection) -> float:
    with reader.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(id), 0) FROM foo")
        [last] = cursor.fetchone() or []
    seen: list[float] = []

    def look() -> None:
        with reader.cursor() as cursor:
            while not cursor.execute(f"SELECT id FROM foo WHERE id > {int(last)} LIMIT 1"):
                pass
        seen.append(clock.timer())

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    with writer.cursor() as cursor:
        cursor.execute("INSERT INTO foo (text) VALUES ('seen')")
    answered = clock.timer()
    looker.join()
    return (answered - seen[0]) * 1000
