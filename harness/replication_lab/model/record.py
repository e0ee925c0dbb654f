"""The record of a run: what happened, as it happened, one JSON object a line in `record.jsonl`.

A record is only ever appended to. The report and the judge read nothing else, so an old run can be judged again
without servers. Fields that this version does not know are ignored; an event that it does not know becomes a doubt,
because it may hold something that speaks against the figures.
"""

import math
from collections.abc import Iterable
from functools import cached_property

import msgspec

from replication_lab.model.errors import LabError
from replication_lab.model.lines import Lines

SCHEMA = 1


class Spread(msgspec.Struct, frozen=True):
    """Several readings of one number: smallest, middle, largest and how many."""

    min: float
    p50: float
    max: float
    n: int


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A toxic on a link and the proof that it acted: `asked`, `before`, `during` and `after` share `unit`."""

    link: str
    toxic: str
    unit: str
    asked: float | None = None
    before: float | None = None
    during: Spread | None = None
    after: float | None = None
    seen: bool
    why: str = ""

    @property
    def doubt(self) -> str | None:
        if self.seen:
            return None
        return f"fault not seen: {self.why or self._figures()}"

    def _figures(self) -> str:
        found = f"{self.during.p50:g} {self.unit}" if self.during else "not measured"
        return f"asked {self.asked} {self.unit} of {self.toxic} on link {self.link}, it was {found} during the load"


class Proof(msgspec.Struct, frozen=True):
    """A state that was checked and not believed, such as "semi-sync stayed on"; `what` may say what was expected."""

    what: str
    found: str
    ok: bool
    expected: str = ""

    @property
    def doubt(self) -> str | None:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return None if self.ok else f"{self.what}: {expected}{self.found}"


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What else the host did meanwhile. Shares are 0…1 of all CPUs; `quiet` is the verdict, `why` its reason."""

    foreign_cpu: float | None = None
    steal: float | None = None
    psi_cpu_some: float | None = None
    load1: float | None = None
    quiet: bool = True
    why: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """One line of a record."""


class Run(Event, frozen=True, kw_only=True, tag="run"):
    """The first line: what was asked for, and on which machine. `settings` holds min_rounds, max_rounds, alpha, …

    `undecidable` maps the claims that the preset is not expected to decide to the reason.
    """

    schema: int = SCHEMA
    experiment: str
    preset: str
    seed: int
    engines: list[str]
    settings: dict = {}
    undecidable: dict[str, str] = {}
    environment: dict = {}
    started: str


class Lab(Event, frozen=True, kw_only=True, tag="lab"):
    """A topology that came up; a run on several has one event for each.

    `not_applicable` maps the cases that are not measured to the reason: the engine cannot have them, or the preset
    leaves them out. It is the same in all labs of an engine.
    """

    engine: str
    version: str
    topology: str
    images: dict[str, str] = {}
    settings: dict = {}
    not_applicable: dict[str, str] = {}


class Measurement(Event, frozen=True, kw_only=True, tag="measurement"):
    """One case, measured once.

    `figures` are single numbers by name: throughput (1/s), latency_p50_ms, rtt_p50_ms, counts. A figure that could not
    be computed is None (JSON has no NaN). `samples` are the raw readings, such as latency_ms and rtt_ms.
    """

    engine: str
    round: int
    case: str
    figures: dict[str, float | None] = {}
    samples: dict[str, list[float]] = {}
    faults: list[Fault] = []
    proofs: list[Proof] = []
    noise: Noise = Noise()
    doubts: list[str] = []
    at: str = ""
    seconds: float = 0.0

    @property
    def reasons_to_doubt(self) -> list[str]:
        """Everything that makes this measurement untrustworthy, noise apart."""
        unproved = [part.doubt for part in (*self.faults, *self.proofs) if part.doubt]
        return [*self.doubts, *unproved]


class Doubt(Event, frozen=True, kw_only=True, tag="doubt"):
    """Something wrong about all of an engine's figures, or about the whole run when `engine` is None."""

    engine: str | None = None
    reason: str


class Interrupted(Event, frozen=True, kw_only=True, tag="interrupted"):
    """The user or the system stopped the run; `reason` is the signal's name or the like."""

    reason: str


class Crashed(Event, frozen=True, kw_only=True, tag="crashed"):
    """The harness failed; `error` is the text the user saw."""

    error: str


class End(Event, frozen=True, kw_only=True, tag="end"):
    """The last line: "decided", "round limit", "interrupted" or "crashed"."""

    why: str


AnyEvent = Run | Lab | Measurement | Doubt | Interrupted | Crashed | End

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)
_KNOWN = {kind.__struct_config__.tag for kind in AnyEvent.__args__}


def encode(event: Event) -> bytes:
    """One line of the record, newline included."""
    return _encoder.encode(event) + b"\n"


class Record:
    """All events of a run in their order. Immutable: `plus` gives a longer record.

    `torn` is True when the last line was cut off in the middle of its writing, as after a SIGKILL.
    """

    def __init__(self, events: Iterable[Event] = (), torn: bool = False) -> None:
        self.events = tuple(events)
        self.torn = torn

    @classmethod
    def parse(cls, lines: Iterable[bytes]) -> "Record":
        """Read a record from its lines. Raises LabError for a bad line that is not the last one."""
        whole = Lines(lines)
        events = [_decode(line, number) for number, line in whole]
        return cls(events, whole.torn)

    def plus(self, event: Event) -> "Record":
        return Record((*self.events, event), self.torn)

    @cached_property
    def run(self) -> Run:
        """The first line. Raises LabError when the record holds none."""
        if found := self._of(Run):
            return found[0]
        raise LabError("the record does not say what was run", 'a first line with "event": "run"', "lab run EXPERIMENT")

    @property
    def engines(self) -> list[str]:
        return self.run.engines

    @cached_property
    def measurements(self) -> list[Measurement]:
        return self._of(Measurement)

    @property
    def end(self) -> End | None:
        return _last(self._of(End))

    @property
    def interrupted(self) -> Interrupted | None:
        return _last(self._of(Interrupted))

    @property
    def crashed(self) -> Crashed | None:
        return _last(self._of(Crashed))

    def lab(self, engine: str) -> Lab | None:
        """The engine's latest lab, None when it never came up."""
        return _last([lab for lab in self._of(Lab) if lab.engine == engine])

    def labs(self, engine: str) -> list[Lab]:
        """The engine's labs, the latest of each topology, in the order in which the topologies first came up."""
        return list({lab.topology: lab for lab in self._of(Lab) if lab.engine == engine}.values())

    def of(self, engine: str, case: str) -> list[Measurement]:
        """Every measurement of a case, noisy ones and repetitions included, in the order of time."""
        return [m for m in self.measurements if (m.engine, m.case) == (engine, case)]

    def quiet(self, engine: str, case: str) -> dict[int, Measurement]:
        """The measurement that counts for each round: the last quiet one."""
        return {m.round: m for m in self.of(engine, case) if m.noise.quiet}

    def series(self, engine: str, case: str, figure: str) -> dict[int, float]:
        """A figure by round, quiet rounds only; NaN where its computation failed, absent where it was not taken."""
        rounds = self.quiet(engine, case)
        return {n: _number(m.figures[figure]) for n, m in sorted(rounds.items()) if figure in m.figures}

    def doubts(self, engine: str, counted: Iterable[Measurement] = ()) -> list[str]:
        """Reasons not to trust an engine's figures: about the run as a whole, then about these measurements."""
        whole = [d.reason for d in self._of(Doubt) if d.engine in (None, engine)]
        return whole + [f"{m.case}, round {m.round}: {reason}" for m in counted for reason in m.reasons_to_doubt]

    def _of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def _last(events: list):
    return events[-1] if events else None


def _number(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _decode(line: bytes, number: int) -> Event:
    try:
        event = _decoder.decode(line)
    except msgspec.DecodeError as error:
        return _doubt_about_unknown_event(line, number, error)
    if isinstance(event, Run) and event.schema > SCHEMA:
        raise LabError(
            f"line {number} of the record has schema {event.schema}",
            f"a schema up to {SCHEMA}",
            "read it with the version of the lab that wrote it",
        )
    return event


def _doubt_about_unknown_event(line: bytes, number: int, error: Exception) -> Doubt:
    kind = _event_name(line)
    if kind is None or kind in _KNOWN:
        raise LabError(
            f"line {number} of the record cannot be read: {error}",
            "one JSON object a line",
            f"sed -n {number}p record.jsonl",
        ) from error
    return Doubt(reason=f"line {number} of the record is an event {kind!r} that this version does not know")


def _event_name(line: bytes) -> str | None:
    try:
        found = msgspec.json.decode(line, type=dict)
    except msgspec.DecodeError:
        return None
    name = found.get("event")
    return name if isinstance(name, str) else None
