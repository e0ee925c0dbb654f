"""The digest of a run, for comparing it with another one: figures by round, verdicts, and where it was measured."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.core.event import NOISY, LabCameUp
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.compared_figures import FIGURES
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.quantities import Ratio
from replication_lab.model.experiment.relations import Bounds
from replication_lab.model.record.record import Record

SCHEMA = 4
# The properties of a machine that must be equal before rates (1/s) and latencies (ms) are compared.
MACHINE = ("machine", "cpu", "cpus", "memory_mib")
GIB = 1024
NO_QUIET_ROUND = "no round of it was quiet"
ENDED_BY_NOISE = "the machine was noisy, and --noise stop ended the run"
# Significant digits in the file, so that a committed baseline stays small.
DIGITS = 6


class CaseDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case: each figure's values of the quiet rounds, and the reasons to doubt them.

    Of the same rounds, since schema 2: `loop_us` are the CPU times of the loop that shows the speed of the CPUs, in
    microseconds, `own_cpu` the shares of all CPUs that the lab and the harness used. Empty if a round has none.
    `compared` are the figures that decide a comparison unless the user names others, since schema 4; in older digests
    it was the throughput.
    """

    figures: dict[str, list[float]]
    doubts: list[str] = []
    loop_us: list[float] = []
    own_cpu: list[float] = []
    compared: tuple[str, ...] = ()


class ClaimDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim: its verdict, whether that is unexpected, and the ratio by round if the claim is about a ratio.

    `more_is_better` is null if neither direction is better, as for a ratio between two bounds.
    """

    sentence: str
    verdict: Verdict
    unexpected: bool
    ratios: list[float] = []
    more_is_better: bool | None = None


class EngineDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measurements on one engine."""

    version: str
    settings: dict[str, Any]
    cases: dict[str, CaseDigest]
    claims: dict[str, ClaimDigest]


class Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a run that is compared with another run; the contents of a baseline's file.

    `stopped` is the reason why the run did not go on to its end, since schema 3; empty if it did. `against` names what
    the run itself compares with, since schema 4; an engine's settings then have all that its servers' files changed.
    """

    schema: int = SCHEMA
    run: str
    started: str
    experiment: str
    question: str
    preset: str
    conditions: dict[str, str]
    environment: dict[str, Any]
    engines: dict[str, EngineDigest]
    stopped: str = ""
    against: str = ""

    @property
    def machine(self) -> dict[str, Any]:
        """The properties that must be equal. Of the memory, the GiB that it has: a kernel's own share varies."""
        memory = self.environment.get("memory_mib")
        found = {key: self.environment.get(key) for key in MACHINE}
        return found | {"memory_mib": math.ceil(memory / GIB) * GIB if memory else memory}


def digest(run: str, experiment: Experiment[Any], record: Record) -> Digest:
    """Return the digest of a recorded run of an experiment."""
    return Digest(
        run=run,
        started=record.opening.started,
        experiment=experiment.name,
        question=experiment.question,
        preset=record.run.preset,
        conditions=record.run.conditions,
        environment={key: record.opening.environment.get(key) for key in (*MACHINE, "kernel", "docker")},
        engines={engine: _engine(engine, experiment, record) for engine in record.engines},
        stopped=_stopped(record),
        against=record.run.against.reference if record.run.against else "",
    )


def _stopped(record: Record) -> str:
    if record.end is None:
        return record.stopped or "its record has no end: it was killed, or still runs"
    return record.stopped or (ENDED_BY_NOISE if record.end.why == NOISY else "")


def decode(text: bytes, name: str) -> Digest:
    """Return the digest in a baseline's file. Raise LabError for a file that is no baseline."""
    with as_lab_error(msgspec.MsgspecError, f"{name} is not a baseline", "a file of `lab report --format baseline`"):
        found = msgspec.json.decode(text, type=Digest)
    if found.schema > SCHEMA:
        raise LabError(f"{name} has schema {found.schema}", f"schema {SCHEMA} or lower", "update the lab")
    return found


def encode(found: Digest) -> bytes:
    """Return the contents of a baseline's file: one line for each figure, for readable diffs in version control."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


def _engine(engine: str, experiment: Experiment[Any], record: Record) -> EngineDigest:
    lab = record.lab(engine) or LabCameUp(engine=engine, version="was never started", topology="")
    cases = {
        _stable(case.name, record): _case(engine, case.name, record, experiment.compared_of(case))
        for case in experiment.cases
        if record.of(engine, case.name)
    }
    return EngineDigest(
        version=lab.version,
        settings=lab.changed | lab.settings,
        cases=cases,
        claims={one.id: _claim(one, experiment, record) for one in experiment.judge(record, engine)},
    )


def _stable(case: str, record: Record) -> str:
    """Return a case's name, in which each commit that --against names is called the same."""
    against = record.run.against
    return case.replace(f"@{against.commit[:12]}", f"@{against.reference}") if against and against.commit else case


def _case(engine: str, case: str, record: Record, compared: Sequence[str]) -> CaseDigest:
    taken = {figure: list(record.series(engine, case, figure).values()) for figure in FIGURES}
    quiet = record.quiet(engine, case).values()
    if not quiet:
        return CaseDigest({}, [NO_QUIET_ROUND], compared=tuple(compared))
    figures = {name: _rounded(values) for name, values in taken.items() if _is_whole(values)}
    loops, own = [m.noise.loop_us or 0.0 for m in quiet], [m.noise.own_cpu or 0.0 for m in quiet]
    measured = (_rounded(loops), _rounded(own)) if _is_whole(loops) and _is_whole(own) else ([], [])
    return CaseDigest(figures, record.doubts(engine, quiet), *measured, tuple(compared))


def _claim(judged: ClaimJudgement, experiment: Experiment[Any], record: Record) -> ClaimDigest:
    relation = next(claim.relation for claim in experiment.claims if claim.id == judged.id)
    found = ClaimDigest(judged.sentence, judged.verdict, judged.changed)
    if not isinstance(relation, Bounds) or not isinstance(relation.quantity, Ratio) or judged.doubted:
        return found
    ratios = list(relation.quantity.series(record, judged.engine).values())
    if not _is_whole(ratios):
        return found
    return msgspec.structs.replace(found, ratios=_rounded(ratios), more_is_better=_more_is_better(relation))


def _more_is_better(relation: Bounds) -> bool | None:
    """Return whether a larger ratio is better: away from its only bound, else as for the figure in the numerator."""
    if math.isinf(relation.low) != math.isinf(relation.high):
        return math.isinf(relation.high)
    known = FIGURES.get(relation.quantity.figures[0].name)
    return None if math.isfinite(relation.low) or known is None else known.more_is_better


def _is_whole(values: list[float]) -> bool:
    return bool(values) and all(math.isfinite(value) and value > 0 for value in values)


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
