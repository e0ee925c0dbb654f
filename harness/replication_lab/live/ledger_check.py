"""The ledger as it is shown, and its comparison with the rows on the nodes, in a thread of its own."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import structs

from replication_lab import replication
from replication_lab.live.tally import LoadTally, Ranges
from replication_lab.model.core.errors import LabError
from replication_lab.model.live.view import ViewedLedger
from replication_lab.workloads.ledger import TABLE
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

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
    return sum(_missing(server, first, last) for first, last in _parts(rows))


def _parts(rows: Ranges) -> Iterable[tuple[int, int]]:
    for first, last in rows:
        for begin in range(first, last + 1, PART):
            yield begin, min(begin + PART - 1, last)


def _missing(server: Server, first: int, last: int) -> int:
    # A row can be there twice only by a mistake; it must not hide one that is missing.
    found = server.value(f"SELECT COUNT(DISTINCT id) FROM {TABLE} WHERE id BETWEEN {first} AND {last}")
    return last - first + 1 - int(found)
