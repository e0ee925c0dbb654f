"""The history of the clients' statements: one JSON object a line, two lines for each statement.

The line `invoked` is written before a statement is sent, the line `ended` before the next statement. A statement
without a second line was in flight when the recording stopped: its outcome is unknown.
"""

import math
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import msgspec

from replication_lab.model.core.event import UNREADABLE, Lines


class Outcome(StrEnum):
    """The outcome of a statement for its client; UNKNOWN: the answer was lost, and the row may be present or not."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Invoked(msgspec.Struct, frozen=True, tag_field="event", tag="invoked"):
    """A statement about to be sent: `at` is monotonic, in seconds since the load began, `wall` is the time of day."""

    id: int
    client: int
    node: str
    at: float
    wall: str


class StatementEnd(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", tag="ended"):
    """The answer to a statement; `code` and `text` are those of the server's or the client library's error.

    `rows` is by how many rows the user's own statements in the transaction changed a table, by SCHEMA.TABLE. `server`
    is the one that answered through an endpoint, as ID@HOSTNAME: its @@server_id and @@hostname.
    """

    id: int
    at: float
    outcome: Outcome
    code: int | None = None
    text: str = ""
    rows: dict[str, int] = {}
    server: str = ""


class RowLook(msgspec.Struct, frozen=True, tag_field="event", tag="look"):
    """An answered query on `node` for the newest row of a client: its id, None if there was none. Times are seconds.

    `reader` is the client that asked: the writer itself or another one.
    """

    reader: int
    writer: int
    node: str
    invoked: float
    ended: float
    seen: int | None = None


class Attempt(msgspec.Struct, frozen=True):
    """One statement with its answer; `ended` is infinite if the record stops before it. Times are in seconds.

    `node` is where the client sent it. `server` is the one that was behind an endpoint, as ID@HOSTNAME.
    """

    id: int
    client: int
    node: str
    invoked: float
    ended: float = math.inf
    outcome: Outcome = Outcome.UNKNOWN
    code: int | None = None
    rows: dict[str, int] = {}
    server: str = ""

    @property
    def acknowledged(self) -> bool:
        return self.outcome is Outcome.ACKNOWLEDGED

    @property
    def latency(self) -> float:
        """Seconds from the statement to its answer."""
        return self.ended - self.invoked


class TableContent(msgspec.Struct, frozen=True):
    """The number of rows of a table, and the server's own checksum of them."""

    rows: int
    checksum: int | None


class Copy(msgspec.Struct, frozen=True):
    """The final rows of one node: ids as inclusive ranges (an id twice is in two), and the server's own checksum.

    `counter` is the hot row's value, if the load had one. `source` is the node that the rows were replicated from.
    `tables` are all other tables of the node, by SCHEMA.TABLE; copies in older records have none.
    """

    node: str
    ranges: list[tuple[int, int]]
    checksum: int | None = None
    counter: int | None = None
    source: str = ""
    tables: dict[str, TableContent] = {}

    @property
    def ids(self) -> list[int]:
        return numbers(self.ranges)


def numbers(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the ids in inclusive ranges."""
    return [number for first, last in ranges for number in range(first, last + 1)]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Invoked | StatementEnd | RowLook)


def encode(line: Invoked | StatementEnd | RowLook) -> bytes:
    return _encoder.encode(line) + b"\n"


class History(NamedTuple):
    """The attempts and the reads of a ledger in their order, as far as it can be read; else the reason why it ends."""

    attempts: list[Attempt]
    looks: list[RowLook]
    damage: str = ""


def parse(lines: Iterable[bytes]) -> History:
    """Return the history in these lines, up to the first one that cannot be read or that breaks off."""
    attempts: dict[int, Attempt] = {}
    looks: list[RowLook] = []
    whole, damage = Lines(lines), ""
    for number, line in whole:
        try:
            event: Invoked | StatementEnd | RowLook = _decoder.decode(line)
        except UNREADABLE as error:
            damage = f"line {number} of the ledger cannot be read: {error}"
            break
        if isinstance(event, RowLook):
            looks.append(event)
        elif isinstance(event, Invoked):
            if event.id in attempts:
                damage = f"line {number} of the ledger invokes {event.id} again"
                break
            attempts[event.id] = Attempt(event.id, event.client, event.node, event.at)
        else:
            if event.id not in attempts:
                damage = f"line {number} of the ledger ends {event.id}, which was not invoked"
                break
            sent = attempts[event.id]
            attempts[event.id] = Attempt(
                *(sent.id, sent.client, sent.node, sent.invoked, event.at, event.outcome, event.code, event.rows),
                event.server,
            )
    if whole.torn:
        damage = "the ledger breaks off in the middle of a line"
    return History(list(attempts.values()), looks, damage)


def serves_since(lines: Iterable[bytes], moment: float) -> bool:
    """Return whether one of these lines acknowledges a statement that was sent after a moment; broken ones do not."""
    sent = set[int]()
    for line in lines:
        with suppress(*UNREADABLE):
            event: Invoked | StatementEnd | RowLook = _decoder.decode(line)
            if isinstance(event, Invoked) and event.at >= moment:
                sent.add(event.id)
            if isinstance(event, StatementEnd) and event.outcome is Outcome.ACKNOWLEDGED and event.id in sent:
                return True
    return False


def ranges(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted ids as inclusive ranges; an id that occurs twice begins a range of its own."""
    found: list[tuple[int, int]] = []
    for number in sorted(ids):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
