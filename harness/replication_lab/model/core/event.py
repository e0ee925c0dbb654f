"""The lines of a record that every run writes, of an experiment or of drills."""

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
