"""The ledger: concurrent clients insert unique ids, and record each answer before the next statement."""

import os
import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Protocol

from replication_lab.model.drill.history import (
    Copy,
    Invoked,
    Outcome,
    RowLook,
    StatementEnd,
    TableContent,
    encode,
    ranges,
    serves_since,
)
from replication_lab.model.lab.mysql_errors import conflict
from replication_lab.model.question.sql_load import Change, Letters, Numbers, Transaction, directions
from replication_lab.world import clock
from replication_lab.world.client_place import HERE, ClientPlace
from replication_lab.world.mysql.client import TransactionAnswer
from replication_lab.world.mysql.server import Server, plain

# How long clients are waited for that no server answers: longer than each of them waits for an answer. And how often
# the end of the ledger is looked at, which has the statements of some seconds.
SERVED_SECONDS, SEEN_SECONDS, LAST_BYTES = 70, 0.3, 1 << 17


@dataclass(frozen=True)
class Drawn:
    """One transaction as it is sent, and the table whose number of rows each statement changes."""

    statements: list[str]
    writes: bool
    changes: Sequence[Change | None] = ()


def drawn(transactions: Sequence[Transaction], seed: int, client: int) -> Iterator[Drawn]:
    """Yield transactions endlessly: all in a random order, then again in another one, like the load's clients."""
    dice = Random(f"{seed}:{client}")
    while True:
        for transaction in dice.sample(transactions, len(transactions)):
            values = {name: _value(wanted, dice) for name, wanted in transaction.parameters.items()}
            statements = [_statement(pieces, values) for pieces in transaction.statements]
            yield Drawn(statements, transaction.writes, transaction.changes)


def _value(wanted: Numbers | Letters, dice: Random) -> str:
    if isinstance(wanted, Numbers):
        return str(dice.randint(wanted.low, wanted.high))
    return "".join(dice.choices(string.ascii_lowercase, k=wanted.number))


def _statement(pieces: Sequence[str], values: dict[str, str]) -> str:
    """Return the statement made of `pieces`, which alternate between text and the name of a parameter."""
    return "".join(values[piece] if number % 2 else piece for number, piece in enumerate(pieces))


TABLE, HOT = "lab.ledger", "lab.ledger_hot"
# No unique key on `id`: a duplicate row must be visible, not refused.
CREATE = f"CREATE TABLE {TABLE} (place BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT NOT NULL, KEY (id)) ENGINE=InnoDB"
CREATE_HOT = f"CREATE TABLE {HOT} (id INT PRIMARY KEY, changes BIGINT NOT NULL) ENGINE=InnoDB"
IDS_PER_CLIENT = 1_000_000_000
# The id of the rows that a table has before the clients write: theirs are larger.
NO_CLIENT = 0
# A client that lost a conflict retries at once; if no node serves, it retries after this time.
RETRY_SECONDS = 0.1
# A client of an endpoint waits longer after each failure in a row, as the pool of an application does.
BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
UNNAMED = "a table that a statement does not name alone"
INSERT_ALONE = Drawn([], writes=True)
WATCH_SECONDS = 0.02


class Transacts(Protocol):
    """A client: replication_lab.world.mysql.client.ApplicationClient, or a test's."""

    def transact(self, statements: list[str]) -> TransactionAnswer: ...

    def look(self, query: str) -> int | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Ledger:
    """`clients` of each node; with `hot_row` each transaction also increments one row that all of them share.

    A client pauses `think_ms` after each statement that was acknowledged. After each statement the clients of a node in
    `reads` query another node for the newest row, their own and that of the client after them. `watchers` only read,
    the rows of all clients in turn, because a client that waits for its commit cannot read. With `transactions` a
    client runs the user's, and its row is part of each that writes; one that only reads has no row, nor any record.
    With a `rate` all clients together begin at most that many transactions a second. Clients that `back_off` retry
    after BACKOFF_SECONDS. The table has at least `rows` rows of no client before they write.
    """

    clients: dict[str, int]
    hot_row: bool = False
    reads: dict[str, str] = field(default_factory=dict)
    think_ms: float = 0
    watchers: dict[str, int] = field(default_factory=dict)
    transactions: Sequence[Transaction] = ()
    seed: int = 0
    rate: float = 0
    back_off: bool = False
    rows: int = 0

    def prepare(self, server: Server) -> None:
        """Create empty tables, on any node."""
        server.execute(f"DROP TABLE IF EXISTS {TABLE}, {HOT}", CREATE)
        if self.hot_row:
            server.execute(CREATE_HOT, f"INSERT INTO {HOT} VALUES (1, 0)")
        if self.rows:
            server.execute(f"INSERT INTO {TABLE} (id) VALUES ({NO_CLIENT})")
            for _ in range((self.rows - 1).bit_length()):
                server.execute(f"INSERT INTO {TABLE} (id) SELECT id FROM {TABLE}")

    def counted_tables(self, server: Server) -> dict[str, int]:
        """Return the user's tables in which the clients' rows can be counted, with their rows before the load.

        Only the clients insert there, or only they delete: nothing that the server runs by itself names the table. The
        transactions have to name it, not a view.
        """
        signs = directions(change for each in self.transactions for change in each.changes)
        known = {plain(name): name for name in server.tables("InnoDB")} if signs else {}
        if not signs or not signs.keys() <= known.keys():
            return {}
        programs = server.stored_programs()
        return {
            name: server.value(f"SELECT COUNT(*) FROM {known[name]}")
            for name, sign in signs.items()
            if sign and not any(_names(text, name) for text in programs)
        }

    def uncounted_tables(self, counted: Container[str]) -> list[str]:
        """Return the user's tables that the clients change and whose rows do not show which changes were lost."""
        changes = {change for each in self.transactions for change in each.changes if change}
        others = {change.table or UNNAMED for change in changes if change.table not in counted}
        updated = {f"{change.table} (its updates)" for change in changes if change.table in counted and not change.sign}
        return sorted(others | updated)

    def statements(self, number: int, own: Sequence[str] = ()) -> list[str]:
        """Return a transaction: the client's own statements, then its row."""
        insert = f"INSERT INTO {TABLE} (id) VALUES ({number})"
        if own:
            return [*own, insert]
        return [insert, f"UPDATE {HOT} SET changes = changes + 1 WHERE id = 1"] if self.hot_row else [insert]

    @contextmanager
    def writing(
        self, connect: Callable[[str], Transacts], write: Callable[[bytes], object], place: ClientPlace = HERE
    ) -> Iterator[float]:
        """Let clients write all through the block; yield the moment (of the clock's timer) that is their zero.

        They run at `place`. There `connect` makes a client of a node; `write` must have stored a line when it returns.
        At the end of the block each client finishes the transaction that it is in.
        """
        began = clock.timer()
        clients = place.make(LedgerClients, self, connect, began + place.ahead)
        with ThreadPoolExecutor(1) as pool:
            ending = pool.submit(clients.run, write=write)
            try:
                clients.wait_until_begun()
                yield began
            finally:
                clients.stop()
        ending.result()

    @property
    def size(self) -> int:
        return sum(self.clients.values())

    @property
    def interval(self) -> float:
        """The least seconds from the begin of a client's transaction to that of its next one; 0 without a rate."""
        return self.size / self.rate if self.rate else 0.0

    def copy(self, server: Server, source: str = "", tables: Sequence[str] = ()) -> Copy:
        """Return a node's rows at the end; `source` is the node that its rows came from, `tables` are what it has."""
        ids = [row["id"] for row in server.rows(f"SELECT id FROM {TABLE} WHERE id > {NO_CLIENT}")]
        counter = server.value(f"SELECT changes FROM {HOT}") if self.hot_row else None
        contents = {
            plain(name): TableContent(server.value(f"SELECT COUNT(*) FROM {name}"), server.checksum(name))
            for name in tables
            if plain(name) not in (TABLE, HOT)
        }
        return Copy(server.name, ranges(ids), server.checksum(TABLE), counter, source, contents)


def wait_until_served(file: Path, since: float) -> None:
    """Wait until a statement sent after `since` is acknowledged in a ledger that is being written, or for a minute."""
    until = clock.timer() + SERVED_SECONDS
    with file.open("rb") as found:
        while clock.timer() < until:
            found.seek(max(found.seek(0, os.SEEK_END) - LAST_BYTES, 0))
            if serves_since(found.read().splitlines(), since):
                return
            clock.pause(SEEN_SECONDS)


class LedgerClients:
    """The clients of a ledger: `connect` makes that of a node, `began` is their zero by the clock's timer."""

    def __init__(self, ledger: Ledger, connect: Callable[[str], Transacts], began: float):
        self._ledger, self._connect, self._began = ledger, connect, began
        self._begun, self._stop = threading.Event(), threading.Event()

    def wait_until_begun(self) -> None:
        """Wait until all clients were started, or one could not be."""
        self._begun.wait()

    def run(self, write: Callable[[bytes], object]) -> None:
        """Write and read until `stop`; what ended a client is raised."""
        ledger, connect = self._ledger, self._connect
        # Each node as often as it has clients.
        writers, watchers = [*Counter(ledger.clients).elements()], [*Counter(ledger.watchers).elements()]
        common = (ledger, self._began, write, self._stop)
        with ThreadPoolExecutor(len(writers) + len(watchers), thread_name_prefix="ledger") as pool:
            try:
                ending = [
                    pool.submit(_Writer(number, node, *common).run, connect(node), self._reader(node))
                    for number, node in enumerate(writers, 1)
                ]
                ending += [
                    pool.submit(_Watcher(number, node, *common).run, connect(node))
                    for number, node in enumerate(watchers, len(writers) + 1)
                ]
            finally:
                self._begun.set()
        for end in ending:
            end.result()

    def stop(self) -> None:
        """Let each client finish the transaction that it is in."""
        self._stop.set()

    def _reader(self, node: str) -> Transacts | None:
        reads = self._ledger.reads
        return self._connect(reads[node]) if node in reads else None


def _names(text: str, table: str) -> bool:
    """Return whether the text of a stored program names a table, SCHEMA.TABLE, in whichever schema."""
    return bool(re.search(rf"(?<![\w$]){re.escape(table.partition('.')[2])}(?![\w$])", text, re.IGNORECASE))


def _changed_rows(changes: Sequence[Change | None], answer: TransactionAnswer) -> dict[str, int]:
    """Return by how many rows the user's statements changed each table; BEGIN comes before them."""
    found: dict[str, int] = {}
    for change, affected in zip(changes, answer.affected[1:], strict=False):
        if change and change.sign:
            found[change.table] = found.get(change.table, 0) + change.sign * affected
    return found


@dataclass(frozen=True)
class _Client:
    """One client of the ledger, on a node."""

    number: int
    node: str
    ledger: Ledger
    began: float
    write: Callable[[bytes], object]
    stop: threading.Event

    def look(self, reader: Transacts, node: str, writer: int) -> None:
        """Record the newest readable row of a client; nothing if there was no answer."""
        first, invoked = writer * IDS_PER_CLIENT, self.time()
        query = f"SELECT COALESCE(MAX(id), -1) FROM {TABLE} WHERE id BETWEEN {first} AND {first + IDS_PER_CLIENT - 1}"
        found = reader.look(query)
        if found is not None:
            self.write(encode(RowLook(self.number, writer, node, invoked, self.time(), None if found < 0 else found)))

    def time(self) -> float:
        return round(clock.timer() - self.began, 6)


class _Watcher(_Client):
    def run(self, reader: Transacts) -> None:
        try:
            while not self.stop.is_set():
                for writer in range(1, self.ledger.size + 1):
                    self.look(reader, self.node, writer)
                clock.pause(WATCH_SECONDS, unless=self.stop)
        finally:
            reader.close()


class _Writer(_Client):
    """A client that writes, and reads where the ledger says so."""

    def run(self, client: Transacts, reader: Transacts | None = None) -> None:
        number = self.number * IDS_PER_CLIENT
        transactions = self.ledger.transactions
        users = drawn(transactions, self.ledger.seed, self.number) if transactions else repeat(INSERT_ALONE)
        due, failures = self.time(), 0
        try:
            while not self.stop.is_set():
                # A client that is late does not catch up: its pace is a limit.
                due = max(self._wait_until(due), due) + self.ledger.interval
                transaction = next(users)
                if transaction.writes:
                    answer = self._attempt(client, number, transaction)
                    number += 1
                else:
                    answer = client.transact(transaction.statements)
                failures = 0 if answer.outcome is Outcome.ACKNOWLEDGED else failures + 1
                if reader is not None and transaction.writes:
                    for writer in (self.number, self.number % self.ledger.size + 1):
                        self.look(reader, self.ledger.reads[self.node], writer)
                if rest := self._rest_after(answer, failures):
                    clock.pause(rest, unless=self.stop)
        finally:
            client.close()
            if reader is not None:
                reader.close()

    def _wait_until(self, due: float) -> float:
        """Wait until it is due, if that is later; return the time now."""
        now = self.time()
        if self.ledger.interval and due > now:
            clock.pause(due - now, unless=self.stop)
            return due
        return now

    def _rest_after(self, answer: TransactionAnswer, failures: int) -> float:
        """Return the seconds until the next transaction; `failures` is how many in a row were not acknowledged."""
        if answer.outcome is Outcome.ACKNOWLEDGED:
            return self.ledger.think_ms / 1000
        if conflict(answer.code):
            return 0
        return BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if self.ledger.back_off else RETRY_SECONDS

    def _attempt(self, client: Transacts, number: int, users: Drawn) -> TransactionAnswer:
        self.write(encode(Invoked(number, self.number, self.node, self.time(), clock.now())))
        answer = client.transact(self.ledger.statements(number, users.statements))
        ended, rows = self.time(), _changed_rows(users.changes, answer)
        self.write(encode(StatementEnd(number, ended, answer.outcome, answer.code, answer.text, rows, answer.server)))
        return answer
