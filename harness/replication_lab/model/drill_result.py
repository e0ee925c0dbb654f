"""What came of a drill: its evidence, its verdicts, and the lines of its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from replication_lab.model import checkers
from replication_lab.model.checkers import Figures
from replication_lab.model.drill import Drill, Expectation, Step, with_settings_apart
from replication_lab.model.errors import LabError
from replication_lab.model.history import Attempt, Copy, Look
from replication_lab.model.lines import Lines
from replication_lab.model.record import Proof
from replication_lab.model.verdict import Expected, Judgement, Verdict, exit_code

SCHEMA = 3

# --- what happened ----------------------------------------------------------------------------------------------------


class View(msgspec.Struct, frozen=True):
    """What a node said of itself (Primary, replicating, semi-sync ON, …), or the error of one that did not answer.

    In a cluster also how many nodes it saw, and which history it had; of a replica, how far it says it is behind.
    """

    says: str = ""
    size: int = 0
    history: str = ""
    error: str = ""
    behind_s: int | None = None

    def __str__(self) -> str:
        return self.error or self.says + (f" of {self.size}" if self.size > 1 else "")


class Acted(msgspec.Struct, frozen=True):
    """A fault at work, in seconds since the load began: begun, seen to act, undone, all nodes whole, seen to be gone.

    `views` are the nodes' own just before it was undone, `struck` is when all of it had been done.
    """

    step: Step
    broke: float
    held: float
    healed: float
    whole: float
    gone: float
    proofs: list[Proof] = []
    views: dict[str, View] = {}
    struck: float | None = None

    @property
    def window(self) -> tuple[float, float]:
        """In which it acted all the time; a kill takes a moment."""
        return (self.broke if self.struck is None else self.struck), self.healed


class Return(msgspec.Struct, frozen=True):
    """How a node came back: by IST, SST, led (it went first) or nothing (it had missed nothing), and how many
    writesets it was sent; Synced so many seconds after the fault was undone."""

    by: str
    writesets: int
    synced_s: float


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """One line of drill.jsonl."""


class Opened(Event, frozen=True, tag="opened"):
    """The first line: what was asked for and where."""

    topology: str
    engine: str
    version: str
    seed: int
    drills: list[Drill]
    started: str
    environment: dict = {}
    images: dict[str, str] = {}
    settings: dict = {}
    schema: int = SCHEMA


class Evidence(Event, frozen=True, kw_only=True, tag="evidence"):
    """Everything about one drill that was done but its ledger. `load` is its begin and end in seconds.

    `compared` is what a comparison of the copies below their rows has found: differing_kib of two replicated disks.
    `harness` is what the clients cost: memory_mib, the most that their process has held, and cpu_share, of one CPU.
    `doubts` are reasons to believe none of its figures.
    """

    drill: Drill
    at: str
    wait_before: float = 0
    load: tuple[float, float] = (0.0, 0.0)
    acted: list[Acted] = []
    before: dict[str, View] = {}
    after: dict[str, View] = {}
    returns: dict[str, Return] = {}
    copies: list[Copy] = []
    counted: dict[str, int] = {}
    compared: dict[str, int] = {}
    promoted_s: float | None = None
    forbidden: list[str] = []
    harness: dict[str, float] = {}
    doubts: list[str] = []

    @property
    def mended(self) -> float:
        """When the last fault was undone; the end of the load where there was none."""
        return max((acted.healed for acted in self.acted), default=self.load[1])

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [acted.window for acted in self.acted]


class Closed(Event, frozen=True, tag="closed"):
    """The last line: done, interrupted, or crashed with the error that the user saw."""

    why: str


# --- what it means ----------------------------------------------------------------------------------------------------

# Every drill's, whatever its file expects: harness/replication_lab/drills/forbidden.yaml says what no log may hold.
QUIET_LOGS = Expectation("no log holds what none may", "forbidden", equals=0)


@dataclass(frozen=True, kw_only=True)
class FigureJudgement(Judgement):
    """The verdict of a drill's expectation: what its figure was, and the bound that it was to keep."""

    figure: str
    bound: str


class Result(msgspec.Struct, frozen=True, dict=True):
    """One drill with its figures and verdicts."""

    drill: Drill
    figures: dict[str, float | str]
    judgements: list[FigureJudgement]
    doubts: list[str]
    evidence: Evidence | None = None

    @cached_property
    def exit_code(self) -> int:
        return exit_code(self.judgements)


def judge(evidence: Evidence, history: Sequence[Attempt], looks: Sequence[Look] = ()) -> Result:
    """The verdicts of a drill from its evidence and its ledger, nothing else."""
    rows, row_failures = checkers.rows(history, evidence.copies)
    service, service_failures = checkers.service(history, evidence.load, evidence.windows)
    reads, read_failures = checkers.reads(history, looks, evidence.copies, evidence.mended)
    figures = {**rows, **service, **reads, **_of_nodes(evidence)}
    failures = [*row_failures, *service_failures, *read_failures]
    doubts = [*evidence.doubts, *(proof.doubt for acted in evidence.acted for proof in acted.proofs if proof.doubt)]
    if not any(attempt.acknowledged for attempt in history):
        doubts.append("no statement was acknowledged at all")
    judgements = [_judge(each, figures, doubts, failures) for each in (*evidence.drill.expected, QUIET_LOGS)]
    return Result(evidence.drill, figures, judgements, [*doubts, *failures], evidence)


def not_done(drill: Drill, why: str) -> Result:
    """A drill without evidence: each of its expectations is unknown."""
    return Result(drill, {}, [_judgement(each, Verdict.UNKNOWN, None, why) for each in drill.expected], [why])


def _of_nodes(evidence: Evidence) -> Figures:
    """What the nodes said: of their histories, of themselves just before the mending, of their return."""
    figures: Figures = {
        **evidence.counted,
        **evidence.compared,
        **evidence.harness,
        "forbidden": len(evidence.forbidden),
    }
    if {"cert_failures", "bf_aborts"} <= set(figures):
        figures["conflicts"] = figures["cert_failures"] + figures["bf_aborts"]
    said = [*evidence.before.values(), *evidence.after.values()]
    if any(view.history for view in said) and not any(view.error for view in said):
        figures["histories"] = len({view.history for view in said})
    if evidence.promoted_s is not None:
        figures["promoted_s"] = evidence.promoted_s
    for acted in evidence.acted:
        figures["redundancy_back_s"] = round(acted.whole - acted.healed, 3)
        for node, view in acted.views.items():
            if not view.error:
                figures[f"view.{node}"] = view.says
                figures[f"view_size.{node}"] = view.size
                if view.behind_s is not None:
                    figures[f"behind_s.{node}"] = view.behind_s
    for node, found in evidence.returns.items():
        figures[f"returned.{node}"] = found.by
        figures[f"synced_s.{node}"] = round(found.synced_s, 3)
    return figures


def _judge(asked: Expectation, figures: Figures, doubts: list[str], failures: list[str]) -> FigureJudgement:
    found = figures.get(asked.figure, _none_counted(asked.figure))
    if doubts:
        return _judgement(asked, Verdict.UNKNOWN, found, doubts[0])
    if found is None:
        why = next((failure for failure in failures if asked.figure in failure), f"no figure {asked.figure}")
        return _judgement(asked, Verdict.UNKNOWN, None, why)
    try:
        verdict = Verdict.HOLDS if asked.holds(found) else Verdict.REFUTED
    except TypeError:
        return _judgement(asked, Verdict.UNKNOWN, found, f"{found!r} cannot be compared with {asked.bound}")
    return _judgement(asked, verdict, found, f"{asked.figure} is {found}, expected {asked.bound}")


def _judgement(asked: Expectation, verdict: Verdict, found: float | str | None, reason: str) -> FigureJudgement:
    return FigureJudgement(
        sentence=asked.says,
        relation=f"{asked.figure} is {asked.bound}",
        verdict=verdict,
        reason=reason,
        expected=Expected(asked.expect, asked.because),
        measured=found,
        figure=asked.figure,
        bound=asked.bound,
    )


def _none_counted(figure: str) -> int | None:
    """Errors are counted where they occur: one that has no figure did not."""
    return 0 if ".error." in f".{figure}" else None


AnyEvent = Opened | Evidence | Closed
# In schema 2 every strike had the settings of all faults as keys of its own, empty where its fault took none.
SETTINGS_OF_SCHEMA_2, UNSET = ("toxic", "skew"), ("", 0)


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def parse_events(lines: Sequence[bytes]) -> list[Event]:
    """The events of a record; a last line cut off in its writing is left out. LabError for any other bad line."""
    return [_decode(line, number) for number, line in Lines(lines)]


def _decode(line: bytes, number: int) -> Event:
    try:
        event = with_settings_apart(msgspec.json.decode(line), SETTINGS_OF_SCHEMA_2, UNSET)
        return msgspec.convert(event, AnyEvent)
    except msgspec.MsgspecError as error:
        raise LabError(
            f"line {number} of drill.jsonl cannot be read: {error}",
            "one event a line",
            f"sed -n {number}p drill.jsonl",
        ) from error
