"""The count of what the load's clients did: of the last second for the charts, and of all rows for the ledger."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd
from replication_lab.world import clock

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
            self._begun(event) if isinstance(event, Invoked) else self._ended(event)
            self.also(line)

    def _begun(self, event: Invoked) -> None:
        self.sent += 1
        self._flying[event.id] = event.at

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
        ranges = self._acknowledged.setdefault(_client_of(number), [])
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


def _client_of(number: int) -> int:
    return number // 1_000_000_000


def nowhere(_line: bytes) -> None:
    """Do nothing: no record is being written."""
