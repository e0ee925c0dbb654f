"""The lines of a record that every run writes: events, one JSON object a line, each sealed by a digest."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

# The version of both kinds of record, and the oldest that is read; docs/summary.md lists the changes of each number.
SCHEMA, OLDEST_SCHEMA = 7, 5
INTERRUPTED, CRASHED, KEPT = "interrupted", "crashed", "kept"
# The machine was noisy, and the user chose --noise stop.
NOISY = "noisy"
RECORD = "record.jsonl"


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """One line of a record."""


class Opening(Event, frozen=True, kw_only=True):
    """The first line: the request, and the machine. Each kind of run has its own type.

    `obligations` are what witnesses must prove all through each measurement or drill; records before schema 7 have
    none.
    """

    schema: int = SCHEMA
    seed: int
    engines: list[str]
    environment: dict[str, Any] = {}
    started: str
    obligations: list[str] = []


class LabCameUp(Event, frozen=True, kw_only=True, tag="lab"):
    """A lab that came up. A run with several labs, or one that had to renew its lab, has an event for each.

    `about` distinguishes it from the engine's other labs of the run; empty in records of older versions.

    `changed` are the settings of one of its servers that were set, without paths and names; all others have the
    server's default. It is empty in older records, and for servers that do not tell.

    `not_applicable` maps the cases that are not measured to the reason: the engine cannot have them, or the preset
    leaves them out. It is the same in all labs of an engine.
    """

    engine: str
    version: str
    topology: str
    images: dict[str, str] = {}
    settings: dict[str, Any] = {}
    not_applicable: dict[str, str] = {}
    about: str = ""
    changed: dict[str, str] = {}


class Doubt(Event, frozen=True, kw_only=True, tag="doubt"):
    """Something wrong with all of an engine's figures, or with the whole run when `engine` is None."""

    engine: str | None = None
    reason: str


class End(Event, frozen=True, kw_only=True, tag="end"):
    """The last line.

    `why` is "decided", "given up", NOISY, "round limit" or "time limit" of an experiment, "done" of drills, or
    INTERRUPTED, CRASHED or KEPT. `reason` is then the signal's name, the error that the user saw, or the labs that
    --keep left up.
    """

    why: str
    reason: str = ""


# What decoding a line may raise: also for text that is not UTF-8, and for thousands of brackets within each other.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Lines:
    """The numbered lines of a file, without empty ones and without a truncated last one.

    The file is read once, line by line: a ledger of many clients is too large for memory. `begin` is where in the file
    the line begins that was yielded last; `torn` is valid at the end.
    """

    def __init__(self, lines: Iterable[bytes]):
        self._lines = lines
        self.begin, self.torn = 0, False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number, line = 0, b""
        for number, following in enumerate(self._lines):
            if line.strip():
                yield number, line
            self.begin += len(line)
            line = following
        # A last line without its newline is complete if it is valid JSON.
        self.torn = not line.endswith(b"\n") and not _is_json(line) and line != b""
        if line.strip() and not self.torn:
            yield number + 1, line


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except UNREADABLE:
        return False
    return True


# At the end of each line, as the last of its fields.
FIELD = re.compile(rb',"digest":"([0-9a-f]{32})"\}\s*\Z')
BYTES = 16


@dataclass(frozen=True)
class Chain:
    """The digests of a record's lines until now; `last` is that of the last line."""

    last: bytes = b""

    def sealed(self, line: bytes) -> tuple[bytes, "Chain"]:
        """Return a JSON line with its digest as one more field, newline included, and the chain with it."""
        content = line.rstrip()
        digest = self._digest(content)
        return content[:-1] + b',"digest":"' + digest + b'"}\n', Chain(digest)

    def continued(self, line: bytes) -> tuple[bool, "Chain"]:
        """Return whether a line is as it was sealed after the line before, and the chain with it in any case."""
        found = FIELD.search(line)
        if found is None:
            return False, self
        return self._digest(line[: found.start()] + b"}") == found[1], Chain(found[1])

    def _digest(self, content: bytes) -> bytes:
        return blake2b(self.last + content, digest_size=BYTES).hexdigest().encode()
