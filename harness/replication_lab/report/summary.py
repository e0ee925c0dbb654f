"""summary.json: what a run found, in one versioned document (docs/summary.md, docs/summary.schema.json)."""

import math

import msgspec

from replication_lab.model.claim import Judgement, NotJudged, Verdict, exit_code, unit_of
from replication_lab.model.experiment import Comparison, Curves, Experiment
from replication_lab.model.record import Lab, Measurement, Record, Spread
from replication_lab.model.statistics import Interval, NoInterval, interval_of_mean

SCHEMA = 2
UNKNOWN, CRASHED = 2, 3
DISPLAY_LEVEL = 0.95
OUTCOMES = {0: "AS_EXPECTED", 1: "CHANGED", UNKNOWN: "UNKNOWN", CRASHED: "CRASHED"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the summary."""


class LabRow(Row, frozen=True, kw_only=True):
    """What served one engine: the server's own version, image digests by service, settings as read back."""

    engine: str
    version: str
    topology: str
    images: dict[str, str]
    settings: dict


class NoiseRow(Row, frozen=True, kw_only=True):
    """How quiet the host was: measurements taken, how many were noisy, the worst shares (0…1) and the reasons."""

    measurements: int
    noisy: int
    worst_foreign_cpu: float | None = None
    worst_steal: float | None = None
    why: list[str] = []


class Environment(Row, frozen=True, kw_only=True):
    """The machine (kernel, CPUs, memory, engine versions), the servers, and the noise."""

    host: dict
    labs: list[LabRow]
    noise: NoiseRow


class FaultRow(Row, frozen=True, kw_only=True):
    """One fault in one measurement and its proof; asked, before, during and after share `unit`."""

    engine: str
    case: str
    round: int
    link: str
    toxic: str
    unit: str
    asked: float | None
    before: float | None
    during: Spread | None
    after: float | None
    seen: bool
    why: str


class FigureRow(Row, frozen=True, kw_only=True):
    """Mean over the quiet rounds with its 95 % interval (absent when the rounds admit none), beside what was known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    published: float | None = None
    predicted: float | None = None
    ratio_to_published: float | None = None
    ratio_to_predicted: float | None = None


class CaseRow(Row, frozen=True, kw_only=True):
    """One case on one engine; `rounds` are the quiet ones that count, `noisy` the measurements that do not."""

    engine: str
    name: str
    about: str
    rounds: int
    noisy: int
    doubts: list[str]
    figures: dict[str, FigureRow]


class IntervalRow(Row, frozen=True, kw_only=True):
    """A confidence interval at the level of one look, from n rounds."""

    low: float
    high: float
    level: float
    n: int


class ClaimRow(Row, frozen=True, kw_only=True):
    """A claim's verdict on one engine; `changed` tells that it is not the expected one."""

    id: str
    sentence: str
    engine: str
    relation: str
    unit: str
    verdict: Verdict
    expected: Verdict
    changed: bool
    because: str
    reason: str
    published: float | None
    predicted: float | None
    measured: float | None
    interval: IntervalRow | None
    rounds: int


class NotJudgedRow(Row, frozen=True, kw_only=True):
    """A claim without a verdict, and why; `case` is the one that was not measured, null if none lacks."""

    claim: str
    engine: str
    case: str | None
    reason: str


class PointRow(Row, frozen=True, kw_only=True):
    """A point of a line: where on the x axis, and the case whose figure it is."""

    x: float
    case: str


class LineRow(Row, frozen=True, kw_only=True):
    """One line of a panel, its points in the order of the x axis."""

    label: str
    points: list[PointRow]


class PanelRow(Row, frozen=True, kw_only=True):
    """One panel of a chart of curves."""

    title: str
    lines: list[LineRow]


class CurvesRow(Row, frozen=True, kw_only=True):
    """A chart that the experiment asks for: a figure of many cases as lines, those that were measured."""

    title: str
    x: str
    figure: str
    panels: list[PanelRow]


class CellRow(Row, frozen=True, kw_only=True):
    """One case on one engine over its quiet rounds: the mean of the averages, the least and the most of all."""

    average: float
    least: float
    most: float


class ComparedRow(Row, frozen=True, kw_only=True):
    """One label's cells, in the order of the columns; null where an engine has none."""

    label: str
    cells: list[CellRow | None]


class ComparisonRow(Row, frozen=True, kw_only=True):
    """A table of engines beside each other, as far as they were measured; figures in `unit`."""

    title: str
    unit: str
    columns: list[str]
    rows: list[ComparedRow]


class Summary(Row, frozen=True, kw_only=True):
    """The whole run. `verdict` is AS_EXPECTED, CHANGED, UNKNOWN or CRASHED for the exit codes 0, 1, 2 and 3."""

    schema: int = SCHEMA
    experiment: str
    question: str
    preset: str
    seed: int
    started: str
    engines: list[str]
    verdict: str
    exit_code: int
    ended: str | None
    interrupted: str | None
    crashed: str | None
    torn: bool
    source: str
    environment: Environment
    doubts: list[str]
    faults: list[FaultRow]
    cases: list[CaseRow]
    claims: list[ClaimRow]
    not_judged: list[NotJudgedRow]
    curves: list[CurvesRow] = []
    comparison: ComparisonRow | None = None
    record: str = "record.jsonl"


def summarise(experiment: Experiment, record: Record) -> Summary:
    """Judge the record and sum it up. Raises LabError when the record does not say what was run."""
    run, judgements = record.run, experiment.judge(record)
    code = CRASHED if record.crashed else exit_code(judgements) or (UNKNOWN if _broke_off(record) else 0)
    return Summary(
        experiment=run.experiment,
        question=experiment.question,
        preset=run.preset,
        seed=run.seed,
        started=run.started,
        engines=run.engines,
        verdict=OUTCOMES[code],
        exit_code=code,
        ended=record.end.why if record.end else None,
        interrupted=record.interrupted.reason if record.interrupted else None,
        crashed=record.crashed.error if record.crashed else None,
        torn=record.torn,
        source=experiment.data.published.source,
        environment=_environment(record),
        doubts=list(dict.fromkeys(doubt for engine in run.engines for doubt in record.doubts(engine))),
        faults=_faults(record),
        cases=_cases(experiment, record),
        claims=[_claim(j) for j in judgements],
        not_judged=[_not_judged(left) for left in experiment.not_judged(record)],
        curves=[_curves(each, record) for each in experiment.curves],
        comparison=_comparison(experiment.comparison, record) if experiment.comparison else None,
    )


def _not_judged(left: NotJudged) -> NotJudgedRow:
    return NotJudgedRow(claim=left.claim, engine=left.engine, case=left.case, reason=left.reason)


def _broke_off(record: Record) -> bool:
    """Whether checks that come after the last round, such as the comparison of the copies, never took place."""
    return record.end is None or record.torn or record.interrupted is not None


def encode(summary: Summary) -> bytes:
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


def schema() -> bytes:
    """The JSON schema of summary.json."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Summary)), indent=2) + b"\n"


def _environment(record: Record) -> Environment:
    labs = [lab for engine in record.engines for lab in record.labs(engine)]
    return Environment(host=record.run.environment, labs=[_lab(lab) for lab in labs], noise=_noise(record.measurements))


def _lab(lab: Lab) -> LabRow:
    return LabRow(
        engine=lab.engine, version=lab.version, topology=lab.topology, images=lab.images, settings=lab.settings
    )


def _curves(curves: Curves, record: Record) -> CurvesRow:
    measured = {m.case for m in record.measurements}
    panels = [
        PanelRow(
            title=title, lines=[line for label, points in lines.items() if (line := _line(label, points, measured))]
        )
        for title, lines in curves.panels.items()
    ]
    return CurvesRow(
        title=curves.title, x=curves.x, figure=curves.figure, panels=[panel for panel in panels if panel.lines]
    )


def _comparison(asked: Comparison, record: Record) -> ComparisonRow:
    columns = [
        (engine, said, rows)
        for engine in record.engines
        for said, rows in asked.columns.items()
        if any(record.quiet(engine, case) for case in rows.values())
    ]
    labels = dict.fromkeys(label for rows in asked.columns.values() for label in rows)
    return ComparisonRow(
        title=asked.title,
        unit=unit_of(asked.average),
        columns=[f"{engine}, {said}" for engine, said, _ in columns],
        rows=[
            ComparedRow(
                label=label, cells=[_cell(asked, record, engine, rows.get(label)) for engine, _, rows in columns]
            )
            for label in labels
        ],
    )


def _cell(asked: Comparison, record: Record, engine: str, case: str | None) -> CellRow | None:
    average, least, most = (
        list(record.series(engine, case or "", name).values()) for name in (asked.average, asked.least, asked.most)
    )
    if not average or not all(map(math.isfinite, (*average, *least, *most))):
        return None
    return CellRow(average=math.fsum(average) / len(average), least=min(least), most=max(most))


def _line(label: str, points: dict[float, str], measured: set[str]) -> LineRow | None:
    known = [PointRow(x=x, case=case) for x, case in sorted(points.items()) if case in measured]
    return LineRow(label=label, points=known) if known else None


def _noise(measurements: list[Measurement]) -> NoiseRow:
    noisy = [m for m in measurements if not m.noise.quiet]
    return NoiseRow(
        measurements=len(measurements),
        noisy=len(noisy),
        worst_foreign_cpu=max((m.noise.foreign_cpu or 0.0 for m in measurements), default=None),
        worst_steal=max((m.noise.steal or 0.0 for m in measurements), default=None),
        why=[f"{m.engine}, {m.case}, round {m.round}: {m.noise.why or 'noisy host'}" for m in noisy],
    )


def _faults(record: Record) -> list[FaultRow]:
    return [
        FaultRow(
            engine=m.engine,
            case=m.case,
            round=m.round,
            **{
                key: getattr(fault, key)
                for key in ("link", "toxic", "unit", "asked", "before", "during", "after", "seen", "why")
            },
        )
        for m in record.measurements
        for fault in m.faults
    ]


def _cases(experiment: Experiment, record: Record) -> list[CaseRow]:
    return [
        _case(experiment, record, engine, case.name, case.about)
        for engine in record.engines
        for case in experiment.cases
        if record.of(engine, case.name)
    ]


def _case(experiment: Experiment, record: Record, engine: str, name: str, about: str) -> CaseRow:
    taken, quiet = record.of(engine, name), record.quiet(engine, name)
    return CaseRow(
        engine=engine,
        name=name,
        about=about,
        rounds=len(quiet),
        noisy=sum(not m.noise.quiet for m in taken),
        doubts=[f"round {m.round}: {doubt}" for m in taken for doubt in m.reasons_to_doubt],
        figures=_figures(experiment, record, engine, name),
    )


def _figures(experiment: Experiment, record: Record, engine: str, case: str) -> dict[str, FigureRow]:
    names = dict.fromkeys(name for m in record.of(engine, case) for name in m.figures)
    measured = {name: _mean(list(record.series(engine, case, name).values())) for name in names}
    published = experiment.published(case)
    predicted = experiment.predicted(case, {name: value for name, (value, _) in measured.items() if value is not None})
    names |= dict.fromkeys([*published, *predicted])
    return {
        name: _figure(name, *measured.get(name, (None, None)), published.get(name), predicted.get(name))
        for name in names
    }


def _mean(values: list[float]) -> tuple[float | None, Interval | None]:
    if not values or not all(map(math.isfinite, values)):
        return None, None
    try:
        return math.fsum(values) / len(values), interval_of_mean(values, DISPLAY_LEVEL)
    except NoInterval:
        return math.fsum(values) / len(values), None


def _figure(
    name: str, value: float | None, interval: Interval | None, published: float | None, predicted: float | None
) -> FigureRow:
    return FigureRow(
        value=value,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        unit=unit_of(name),
        published=published,
        predicted=predicted,
        ratio_to_published=_ratio(value, published),
        ratio_to_predicted=_ratio(value, predicted),
    )


def _ratio(value: float | None, known: float | None) -> float | None:
    return value / known if value is not None and known else None


def _claim(judgement: Judgement) -> ClaimRow:
    interval = judgement.interval
    shared = {key: getattr(judgement, key) for key in ClaimRow.__struct_fields__ if key not in ("id", "interval")}
    return ClaimRow(
        id=judgement.claim,
        **shared,
        interval=interval and IntervalRow(low=interval.low, high=interval.high, level=interval.level, n=interval.n),
    )
