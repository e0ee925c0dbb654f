"""What the load's clients did: of the last second for the charts, of all rows for the ledger, against the nodes."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd
from replication_lab.model.live.view import ViewedLedger
from replication_lab.workloads.ledger import IDS_PER_CLIENT, TABLE
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

_decoder = msgspec.json.Decoder(Invoked | StatementEnd)
Ranges = list[tuple[int, int]]


@dataclass
class Answers:
    """The answers since the last look: the latencies of commits in ms, and the number of errors."""

    commits_ms: list[float] = field(default_factory=list)
    errors: int = 0


class LoadTally:
    """The clients' statements and answers, in the lines that the ledger writes; `also` gets each line as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window = Answers()
        self._flying: dict[int, float] = {}
        # By client; a client's ids are consecutive, so its acknowledged rows are few ranges.
        self._acknowledged: dict[int, list[list[int]]] = {}
        self.sent = self.acknowledged = self.failed = self.unknown = 0
        # The moment of the newest commit, or of the begin.
        self.committed_at = clock.timer()
        self.also: Callable[[bytes], object] = nowhere

    def write(self, line: bytes) -> None:
        """Count a line of the ledger; it is called by all clients."""
        event = _decoder.decode(line)
        with self._lock:
            if isinstance(event, Invoked):
                self.sent += 1
                self._flying[event.id] = event.at
            else:
                self._ended(event)
            self.also(line)

    def _ended(self, event: StatementEnd) -> None:
        began = self._flying.pop(event.id, event.at)
        if event.outcome is Outcome.ACKNOWLEDGED:
            self.acknowledged += 1
            self.committed_at = clock.timer()
            self._window.commits_ms.append((event.at - began) * 1000)
            self._keep(event.id)
            return
        self._window.errors += 1
        if event.outcome is Outcome.UNKNOWN:
            self.unknown += 1
        else:
            self.failed += 1

    def _keep(self, number: int) -> None:
        ranges = self._acknowledged.setdefault(number // IDS_PER_CLIENT, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])

    def take(self) -> Answers:
        """Return what was answered since the last call."""
        with self._lock:
            found, self._window = self._window, Answers()
        return found

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    def rows(self) -> Ranges:
        """Return the ids of the rows that were acknowledged so far, as inclusive ranges."""
        with self._lock:
            return [(first, last) for ranges in self._acknowledged.values() for first, last in ranges]


def nowhere(_line: bytes) -> None:
    """Do nothing: no record is being written."""


# Rows are read in parts of this many.
PART = 100_000


class LedgerCheck:
    """What the last comparison found. `node` returns where clients write, `at` the time, `show` shows the result."""

    def __init__(
        self, lab: Lab, tally: LoadTally, node: Callable[[], str], at: Callable[[], float], show: Callable[[], object]
    ):
        self._lab, self._tally, self._node, self._at, self._show = lab, tally, node, at, show
        self._busy = threading.Lock()
        self._last = ViewedLedger()

    def ledger(self) -> ViewedLedger:
        """Return the counts now, with what the last comparison found."""
        tally = self._tally
        return structs.replace(
            self._last,
            sent=tally.sent,
            acknowledged=tally.acknowledged,
            failed=tally.failed,
            unknown=tally.unknown,
            in_flight=tally.in_flight,
            checking=self._busy.locked(),
        )

    def check(self) -> None:
        """Begin a comparison, unless one is running."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._check, name="ledger", daemon=True).start()

    def _check(self) -> None:
        try:
            self._last = self._compared()
        finally:
            self._busy.release()
        self._show()

    def _compared(self) -> ViewedLedger:
        at, node = self._at(), self._node()
        # What is acknowledged after this is not asked for.
        rows = self._tally.rows()
        kind = replication.of(self._lab.another())
        try:
            lost, holders = missing(kind.server(node), rows), kind.holders()
        except LabError as error:
            return ViewedLedger(lost=self._last.lost, checked_at=self._last.checked_at, says=error.found)
        others = {}
        for name in holders:
            with suppress(LabError):
                if name != node:
                    others[name] = missing(kind.server(name), rows)
        return ViewedLedger(lost=lost, missing=others, checked_at=at, checked_on=node)


def missing(server: Server, rows: Ranges) -> int:
    """Return how many of these rows the server lacks; LabError if it does not answer.

    It is asked for counts of ranges of rows, not for the rows.
    """
    lacking = 0
    for first, last in rows:
        for begin in range(first, last + 1, PART):
            end = min(begin + PART - 1, last)
            # A row can be there twice only by a mistake; it must not hide one that is missing.
            found = server.value(f"SELECT COUNT(DISTINCT id) FROM {TABLE} WHERE id BETWEEN {begin} AND {end}")
            lacking += end - begin + 1 - int(found)
    return lacking
