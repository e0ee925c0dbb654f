"""The record of a run, of an experiment or of drills: what happened, one JSON object a line in `record.jsonl`.

A record is only ever appended to. The report and the judge read nothing else, so an old run can be judged again without
servers. Fields that this version does not know are ignored; an event that it does not know becomes a doubt, because it
may contain evidence against the figures.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import (
    CRASHED,
    INTERRUPTED,
    OLDEST_SCHEMA,
    SCHEMA,
    UNREADABLE,
    Chain,
    Doubt,
    End,
    Event,
    LabCameUp,
    Lines,
    Opening,
)
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.drill.evidence import DrillsOpening, Evidence
from replication_lab.model.live.view import Acted, Live, Second
from replication_lab.model.question.question import Question
from replication_lab.model.record.chosen import Against, Only
from replication_lab.model.record.measurement import Measurement


class RunOpening(Opening, frozen=True, kw_only=True, tag="run"):
    """The first line of an experiment's record.

    `settings` holds min_rounds, max_rounds, alpha, … `undecidable` maps the claims that the preset is not expected to
    decide to the reason. `question` is that of `lab ask`, if the run answers one. `conditions` maps each condition that
    the user chose in place of the published one to its value, such as rtt: 40ms or sync_binlog: 0; `cnf` are the files
    that conditions name. `only` is the part of the experiment that the user chose, `against` the server that the other
    one is compared with.
    """

    experiment: str
    preset: str
    settings: dict[str, Any] = {}
    undecidable: dict[str, str] = {}
    question: Question | None = None
    conditions: dict[str, str] = {}
    cnf: list[GivenFile] = []
    only: Only = Only()
    against: Against | None = None


Kind = TypeVar("Kind", bound=Event)
# Reads so many bytes of a file from a place on.
Again = Callable[[int, int], bytes]
# Records of earlier schemas have no digests.
DIGESTS_SINCE = 7
ALTERED = "line {} of the record, or a line before it, was changed or removed after it had been written"
# The samples of the first 4 MiB of a record stay in memory.
HELD = 1 << 22
AnyEvent = RunOpening | DrillsOpening | Live | LabCameUp | Measurement | Evidence | Second | Acted | Doubt | End

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)
_KNOWN = {kind.__struct_config__.tag for kind in AnyEvent.__args__}


def encode(event: Event, chain: Chain) -> tuple[bytes, Chain]:
    """Return the next line of a record with its digest, newline included, and the chain with it."""
    return chain.sealed(_encoder.encode(event))


def written(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the lines of a record that has these events."""
    chain = Chain()
    for event in events:
        line, chain = encode(event, chain)
        yield line


class _Unread(Mapping[str, list[float]]):
    """The samples of a measurement, read from its line each time: they are nine tenths of a record."""

    def __init__(self, measured: Measurement, line: Callable[[], bytes]) -> None:
        self._names, self._line = tuple(measured.samples), line

    def __getitem__(self, name: str) -> list[float]:
        if name not in self._names:
            raise KeyError(name)
        return cast("Measurement", _decode(self._line(), 0)).samples[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Record:
    """All events of a run in their order. Immutable: `plus` gives a longer record.

    `torn` is True if the last line is truncated, as after a SIGKILL.
    """

    def __init__(self, events: Iterable[Event] = (), torn: bool = False) -> None:
        self.events = tuple(events)
        self.torn = torn

    @classmethod
    def parse(cls, lines: Iterable[bytes], again: Again | None = None) -> "Record":
        """Read a record from its lines. Raise LabError for a bad line that is not the last one.

        `again` reads a part of the file once more. With it the samples beyond the first HELD bytes are not kept in
        memory but read when they are needed.
        """
        whole, chain, events, altered = Lines(lines), Chain(), list[Event](), list[Event]()
        for number, line in whole:
            found = _decode(line, number)
            unchanged, chain = chain.continued(line)
            first = events[0] if events else found
            has_digests = isinstance(first, Opening) and first.schema >= DIGESTS_SINCE
            if has_digests and not unchanged and not altered:
                altered = [Doubt(reason=ALTERED.format(number))]
            if again and whole.begin + len(line) > HELD and isinstance(found, Measurement):
                samples = _Unread(found, partial(again, whole.begin, len(line)))
                found = msgspec.structs.replace(found, samples=samples)
            events.append(found)
        return cls([*events, *altered], whole.torn)

    def plus(self, event: Event) -> "Record":
        return Record((*self.events, event), self.torn)

    @cached_property
    def opening(self) -> RunOpening | DrillsOpening | Live:
        """The request that started the run; LabError if the record lacks it."""
        for event in self.events:
            if isinstance(event, RunOpening | DrillsOpening | Live):
                return event
        raise LabError("the record has no header", 'a first line with "event": "run" or "drills"', "lab run EXPERIMENT")

    @property
    def run(self) -> RunOpening:
        """The opening of an experiment's record. Raises LabError where it is of drills."""
        if isinstance(self.opening, RunOpening):
            return self.opening
        raise LabError(f"the record is {self._kind}", "the record of an experiment", "./lab report RUN")

    @property
    def drills(self) -> DrillsOpening:
        """The opening of a record of drills. Raises LabError where it is of an experiment."""
        if isinstance(self.opening, DrillsOpening):
            return self.opening
        raise LabError(f"the record is {self._kind}", "a record of drills", "./lab report RUN")

    @property
    def _kind(self) -> str:
        kinds = {RunOpening: "of an experiment", DrillsOpening: "of drills", Live: "of the live page"}
        return kinds[type(self.opening)]

    @property
    def obligations(self) -> list[str]:
        """What witnesses had to prove all through each measurement."""
        return next((event.obligations for event in self.events if isinstance(event, Opening)), [])

    @property
    def engines(self) -> list[str]:
        return self.opening.engines

    @cached_property
    def measurements(self) -> list[Measurement]:
        return self._of(Measurement)

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """The evidence of each finished drill, by the drill's name."""
        return {each.drill.name: each for each in self._of(Evidence)}

    @property
    def has_results(self) -> bool:
        """Whether anything was measured, or a drill was carried out."""
        return any(isinstance(event, Measurement | Evidence) for event in self.events)

    # -- how the run ended -------------------------------------------------------------------------------------------

    @cached_property
    def end(self) -> End | None:
        """How the run ended; None if it was killed, or is still running."""
        return next(iter(self._of(End)), None)

    @property
    def interrupted(self) -> str | None:
        """The reason of an interruption, if the run was interrupted: the signal's name or the like."""
        return self._ended_by(INTERRUPTED)

    @property
    def crashed(self) -> str | None:
        """The error with which the harness failed, if it did."""
        return self._ended_by(CRASHED)

    def _ended_by(self, why: str) -> str | None:
        return self.end.reason if self.end and self.end.why == why else None

    @property
    def stopped(self) -> str | None:
        """The reason why the run did not finish, in words; None if it finished, or may still be running."""
        if self.crashed is not None:
            return f"the run crashed: {self.crashed}"
        if self.interrupted is not None:
            return f"interrupted by {self.interrupted}"
        return "the run was killed: its record breaks off in the middle of a line" if self.torn else None

    @property
    def broke_off(self) -> bool:
        """Whether the last steps of a run, such as the comparison of the copies, are missing."""
        return self.end is None or self.stopped is not None

    # -- what it holds -----------------------------------------------------------------------------------------------

    def lab(self, engine: str) -> LabCameUp | None:
        """Return the engine's latest lab; None if it never came up."""
        return next((lab for lab in reversed(self._of(LabCameUp)) if lab.engine == engine), None)

    def labs(self, engine: str) -> list[LabCameUp]:
        """Return the engine's labs in the order in which they first came up, the latest where one was renewed."""
        return list({(lab.topology, lab.about): lab for lab in self._of(LabCameUp) if lab.engine == engine}.values())

    def of(self, engine: str, case: str) -> list[Measurement]:
        """Return all measurements of a case in order of time, including noisy ones and repetitions."""
        return [m for m in self.measurements if (m.engine, m.case) == (engine, case)]

    def quiet(self, engine: str, case: str) -> dict[int, Measurement]:
        """Return the measurement that counts for each round, the last of several."""
        return {m.round: m for m in self.of(engine, case) if m.counts}

    def series(self, engine: str, case: str, figure: str) -> dict[int, float]:
        """Return a figure by round, quiet rounds only; NaN if its computation failed, absent if it was not taken."""
        taken = {n: m.figures[figure] for n, m in sorted(self.quiet(engine, case).items()) if figure in m.figures}
        return {n: math.nan if value is None else value for n, value in taken.items()}

    @cached_property
    def sites(self) -> dict[int, str]:
        """The site that each round was measured at: an endpoint, empty for the engine of the command."""
        return {m.round: m.site for m in self.measurements}

    def sites_of(self, rounds: Iterable[int]) -> list[str]:
        """Return the site of each of these rounds."""
        return [self.sites.get(each, "") for each in rounds]

    def doubts(self, engine: str, counted: Iterable[Measurement] = ()) -> list[str]:
        """Return the reasons to doubt an engine's figures: about the run as a whole, then about these measurements."""
        whole = [d.reason for d in self._of(Doubt) if d.engine in (None, engine)]
        certain = [m for m in counted if not m.slow]
        return whole + [
            f"{m.case}, round {m.round}: {reason}"
            for m in certain
            for reason in (*m.reasons_to_doubt, *m.unproved(self.obligations))
        ]

    def _of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]


def _decode(line: bytes, number: int) -> Event:
    try:
        event: Event = _decoder.decode(line)
    except UNREADABLE as error:
        return _not_decoded(line, number, error)
    if isinstance(event, Opening):
        _refuse_schema(event.schema, number)
    return event


def of_another_version(found: str) -> LabError:
    """Return the error for a record that an older or a newer version of the lab wrote."""
    return LabError(
        found,
        f"a record of schema {OLDEST_SCHEMA} to {SCHEMA}",
        "read it with the version that wrote it, or measure again: ./lab list experiments, or ./lab list drills",
    )


def _refuse_schema(schema: int, number: int) -> None:
    if not OLDEST_SCHEMA <= schema <= SCHEMA:
        which = "an older" if schema < SCHEMA else "a newer"
        raise of_another_version(f"line {number} of the record has schema {schema}, that of {which} version")


def _not_decoded(line: bytes, number: int, error: Exception) -> Event:
    """Return a doubt for an event of a newer version. Raise LabError for a line that cannot be read."""
    with suppress(*UNREADABLE):
        found = msgspec.json.decode(line, type=_OfEachVersion)
        if isinstance(found.schema, int):
            _refuse_schema(found.schema, number)
        if found.event is not None and found.event not in _KNOWN:
            why = f"line {number} of the record is an event {found.event!r} that this version does not know"
            return Doubt(reason=why)
    raise LabError(
        f"line {number} of the record cannot be read: {error}",
        "one JSON object per line",
        f"sed -n {number}p record.jsonl",
    ) from error


class _OfEachVersion(msgspec.Struct):
    """What the lines of every version have; only the first one has a schema, another may call something else so."""

    event: str | None = None
    schema: Any = SCHEMA
