"""Connections to the servers of the fake world, and the rows that they change."""

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql
from replication_lab.model.core.errors import LabError
from replication_lab.workloads.ledger import TABLE

if TYPE_CHECKING:
    from tests.fakes.lab import FakeLab

# The statements of the workloads that change numbers.
ASKED = re.compile(r"SELECT \w+ FROM (\S+) WHERE id = (\d+) FOR UPDATE")
CHANGED = re.compile(r"UPDATE (\S+) SET (\w+) = (?:\2 ([+-]) )?(\d+) WHERE id = (\d+)")
WIDE = re.compile(r"UPDATE \S+ SET text = ")
INSERTED = re.compile(rf"INSERT INTO {TABLE} \(id\) VALUES \((\d+)\)")
IDLE, IDLE_SECONDS = threading.Event(), 0.002
# A table that no server has.
MISSING = "missing"
SUMMED = re.compile(r"SELECT SUM\(\w+\) FROM (\S+)")


@dataclass
class FakeSession:
    """A connection and its own cursor: it inserts a row, looks for the row inserted, or asks for the last number.

    Its transactions come one after another, though their times overlap: a row is locked until its last change was
    committed, and a transaction from another node in that time loses.
    """

    lab: "FakeLab"
    node: str
    changes: list[tuple[str, int, int]] | None = None
    answer: int = 0

    def cursor(self, _kind: object = None) -> "FakeSession":
        return self

    def thread_id(self) -> int:
        return 1

    def fetchall(self) -> list[dict[str, int]]:
        return []

    def __enter__(self) -> "FakeSession":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def execute(self, statement: str) -> int:
        if MISSING in statement:
            raise pymysql.err.ProgrammingError(1146, f"Table 'lab.{MISSING}' doesn't exist")
        self.lab.said.append(statement)
        if statement.startswith("INSERT"):
            self._write()
        elif statement == "BEGIN":
            self.lab.rows.lock.acquire()
            self.changes = []
        elif statement == "COMMIT":
            self._commit()
        elif WIDE.match(statement):
            self.lab.race.change(1)
        elif changed := CHANGED.match(statement):
            self._change(*changed.groups())
        elif asked := ASKED.match(statement):
            self.answer = self.lab.rows.numbers[asked[1], int(asked[2])]
        elif summed := SUMMED.match(statement):
            self.answer = self.lab.rows.sum(summed[1])
        elif "WHERE" in statement:
            self.lab.clock.reach(self.lab.shown.get())
        return 1

    def fetchone(self) -> tuple[int]:
        return (self.answer,)

    def rollback(self) -> None:
        if self.changes is not None:
            self.changes = None
            self.lab.rows.lock.release()

    def _change(self, table: str, _column: str, sign: str | None, amount: str, number: str) -> None:
        key = (table, int(number))
        before = self.lab.rows.numbers[key]
        after = {None: int(amount), "+": before + int(amount), "-": before - int(amount)}[sign]
        self.changes.append((*key, after))

    def _commit(self) -> None:
        rows, now = self.lab.rows, self.lab.clock.timer()
        taken = [rows.taken[table, number] for table, number, _ in self.changes if (table, number) in rows.taken]
        until = max((until for until, _ in taken), default=now)
        if any(node != self.node and until > now for until, node in taken):
            self.lab.clock.reach(now + self.lab.commit(node=self.node, loses=True).answered / 1000)
            raise pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")
        commit, begins = self.lab.commit(node=self.node), max(now, until)
        if not rows.forgets:
            # All changes at once: a reader sees the table before the commit or after it.
            rows.numbers = rows.numbers | {(table, number): after for table, number, after in self.changes}
        for table, number, _ in self.changes:
            rows.taken[table, number] = (begins + commit.shown / 1000, self.node)
        rows.forgets = False
        self.lab.clock.reach(begins + commit.answered / 1000)
        self.rollback()

    def _write(self) -> None:
        began = shown = self.lab.clock.timer()
        try:
            commit = self.lab.commit()
            shown = began + commit.shown / 1000
            self.lab.clock.reach(began + commit.answered / 1000)
        finally:
            self.lab.shown.put(shown)  # the reader must not look for ever when the writer failed


@dataclass
class FakeLedgerClient:
    """A client's connection for a drill's ledger: each row that it inserts is committed, and is everywhere at once."""

    lab: "FakeLab"
    node: str

    def query(self, statement: str) -> None:
        # A client's time passes at once: without this its thread would leave none of the processor to others.
        IDLE.wait(IDLE_SECONDS)
        if not (inserted := INSERTED.match(statement)):
            return
        try:
            commit = self.lab.commit(node=self.node)
        except LabError as error:
            raise pymysql.err.OperationalError(1047, "WSREP has not yet prepared node for application use") from error
        self.lab.clock.pause(commit.answered / 1000)
        self.lab.ledger.append(int(inserted[1]))

    def rollback(self) -> None:
        pass

    def close(self) -> None:
        pass


class FakeRows:
    """Numbers by table and id, and until when (s) and from which node a row's last change takes it."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self.taken: dict[tuple[str, int], tuple[float, str]] = {}
        self.lock = threading.Lock()
        self.forgets = False

    def fill(self, table: str, values: str) -> None:
        self.numbers |= {(table, int(number)): int(n) for number, n in re.findall(r"\((\d+), (\d+)\)", values)}

    def sum(self, table: str) -> int:
        return sum(n for (name, _), n in self.numbers.items() if name == table)
