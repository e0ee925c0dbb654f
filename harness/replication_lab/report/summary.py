"""summary.json: the findings of a run, in a versioned document (docs/summary.md, docs/summary.schema.json)."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from replication_lab.model.core.event import RECORD
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.groups import grouped
from replication_lab.model.core.statistics import Interval, NoInterval, about, interval_of_mean
from replication_lab.model.core.verdict import Verdict, exit_code, worst
from replication_lab.model.drill.drill_result import Result
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.experiment.experiment import ComparisonTable, Experiment
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.quantities import unit_of
from replication_lab.model.lab.site import Site
from replication_lab.model.question.load import kept
from replication_lab.model.question.question import Effect
from replication_lab.model.record.measurement import Measurement, pooled
from replication_lab.model.record.record import Record
from replication_lab.report import templates
from replication_lab.report.drilled import drilled_rows
from replication_lab.report.rows import (
    CaseRow,
    CellRow,
    ComparedRow,
    ComparisonRow,
    DrillRow,
    DrillsSummary,
    EffectRow,
    Environment,
    ExperimentSummary,
    FaultRow,
    FigureRow,
    NoiseRow,
    Summary,
)

DISPLAY_LEVEL = 0.95
OUTCOMES = {
    ExitCode.GOOD: "AS_EXPECTED",
    ExitCode.FINDING: "CHANGED",
    ExitCode.USAGE: "CRASHED",
    ExitCode.UNKNOWN: "UNKNOWN",
}


def summarise(experiment: Experiment, record: Record) -> ExperimentSummary:
    """Judge the record of an experiment and sum it up. Raise LabError when the record does not say what was run."""
    run, judgements = record.run, experiment.judge(record)
    by_interval = sum(each.interval is not None and each.verdict is not Verdict.UNKNOWN for each in judgements)
    return ExperimentSummary(
        **_of_any_run(record, _code(experiment, record, judgements)),
        experiment=run.experiment,
        question=experiment.question,
        preset=run.preset,
        source=experiment.data.published.source,
        conditions=run.conditions,
        only=run.only,
        faults=[
            FaultRow(**msgspec.structs.asdict(fault), engine=m.engine, case=m.case, round=m.round)
            for m in record.measurements
            for fault in m.faults
        ],
        cases=[
            _case(experiment, record, engine, case.name, case.about)
            for engine in record.engines
            for case in experiment.cases
            if record.of(engine, case.name)
        ],
        claims=judgements,
        not_judged=experiment.not_judged(record),
        curves=[each.measured({m.case for m in record.measurements}) for each in experiment.curves],
        comparison=_comparison(experiment.comparison, record) if experiment.comparison else None,
        effects=effects(experiment, record, judgements),
        counts=experiment.asked.counts if experiment.asked else "commit",
        drilled=drilled_rows(experiment, record),
        by_interval=by_interval,
        expected_wrong=round(by_interval * experiment.plan(record).alpha, 4),
        sites=_sites(record),
    )


def _sites(record: Record) -> dict[str, int]:
    """Return how many rounds each of several sites measured, by its name; empty for a run at one."""
    found = Counter(str(Site(site)) for site in record.sites.values())
    return dict(found) if len(found) > 1 else {}


def _code(experiment: Experiment, record: Record, judgements: Sequence[ClaimJudgement]) -> int:
    """Return the exit code of the verdicts; what a user asked for and an engine cannot have counts as unknown."""
    unanswered = (experiment.asked and experiment.not_judged(record)) or _not_compared(experiment, record, judgements)
    return exit_code(judgements) or (ExitCode.UNKNOWN if unanswered else ExitCode.GOOD)


def _not_compared(experiment: Experiment, record: Record, judgements: Sequence[ClaimJudgement]) -> bool:
    """Return whether --against left something open: nothing was compared, or a measured case could not be."""
    if not experiment.against:
        return False
    comparisons = {claim.id: claim for claim in experiment.claims if claim.compares and experiment.asks_for(claim)}
    measured = {found.case for found in record.measurements}
    open_ = (
        left
        for left in experiment.not_judged(record)
        if left.claim in comparisons and not left.reference and measured & {*comparisons[left.claim].relation.cases}
    )
    return any(open_) or not any(judged.id in comparisons for judged in judgements)


def summarise_drills(record: Record, results: Sequence[Result]) -> DrillsSummary:
    """Sum up the results of a record's drills."""
    return DrillsSummary(
        **_of_any_run(record, worst(result.exit_code for result in results)),
        topology=record.drills.topology,
        drills=[DrillRow.of(result) for result in results],
    )


def _of_any_run(record: Record, code: int) -> dict[str, Any]:
    """Return the fields of every summary. `code` is that of the verdicts; a run that broke off is not as expected."""
    if record.crashed is not None:
        code = ExitCode.USAGE
    elif record.broke_off:
        code = code or ExitCode.UNKNOWN
    return {
        "seed": record.opening.seed,
        "started": record.opening.started,
        "engines": record.engines,
        "verdict": OUTCOMES[ExitCode(code)],
        "exit_code": code,
        "ended": record.end.why if record.end else None,
        "interrupted": record.interrupted,
        "crashed": record.crashed,
        "torn": record.torn,
        "environment": Environment(
            host=record.opening.environment,
            labs=[lab for engine in record.engines for lab in record.labs(engine)],
            noise=_noise(record),
        ),
        "record": RECORD,
        "doubts": list(dict.fromkeys(doubt for engine in record.engines for doubt in record.doubts(engine))),
    }


def encode(summary: Summary) -> bytes:
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


def schema() -> bytes:
    """Return the JSON schema of summary.json."""
    of_both = msgspec.json.schema(ExperimentSummary | DrillsSummary)
    return msgspec.json.format(msgspec.json.encode(of_both), indent=2) + b"\n"


def _comparison(asked: ComparisonTable, record: Record) -> ComparisonRow:
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


def _cell(asked: ComparisonTable, record: Record, engine: str, case: str | None) -> CellRow | None:
    average, least, most = (
        list(record.series(engine, case or "", name).values()) for name in (asked.average, asked.least, asked.most)
    )
    if not average or not all(map(math.isfinite, (*average, *least, *most))):
        return None
    return CellRow(average=math.fsum(average) / len(average), least=min(least), most=max(most))


def _noise(record: Record) -> NoiseRow:
    disturbed = [f"{m.engine}, {m.case}, round {m.round}: {m.disturbed}" for m in record.measurements if m.disturbed]
    drills = [(each, part) for each in record.events if isinstance(each, Evidence) for part in each.noise]
    disturbed += [f"{each.case} {each.drill.name}, {part}".strip() for each, part in drills if not part.noise.quiet]
    noises = [*(m.noise for m in record.measurements), *(part.noise for _, part in drills)]
    return NoiseRow(
        measurements=len(noises),
        noisy=len(disturbed),
        accepted=sum(noise.accepted and not noise.quiet for noise in noises),
        worst_foreign_cpu=max((noise.foreign_cpu or 0.0 for noise in noises), default=None),
        worst_steal=max((noise.steal or 0.0 for noise in noises), default=None),
        slowest_cpus=_slowest_cpus(record.measurements),
        why=disturbed,
    )


def _slowest_cpus(measurements: list[Measurement]) -> float | None:
    """Compare measurements of one case: clients of another one use the threads of a core in another way."""
    readings = grouped(((m.engine, m.case), m.noise.loop_us) for m in measurements if m.noise.loop_us)
    return max((round(max(each) / min(each), 2) for each in readings.values()), default=None)


def _case(experiment: Experiment, record: Record, engine: str, name: str, about: str) -> CaseRow:
    taken, quiet = record.of(engine, name), record.quiet(engine, name)
    return CaseRow(
        engine=engine,
        name=name,
        about=about,
        rounds=len(quiet),
        noisy=sum(bool(m.disturbed) for m in taken),
        doubts=[f"round {m.round}: {doubt}" for m in taken if not m.slow for doubt in m.reasons_to_doubt],
        figures=_figures(experiment, record, engine, name),
        pooled=pooled(list(quiet.values())) if experiment.asked else {},
    )


def _figures(experiment: Experiment, record: Record, engine: str, case: str) -> dict[str, FigureRow]:
    names = dict.fromkeys(name for m in record.of(engine, case) for name in m.figures)
    measured = {name: _mean(record, record.series(engine, case, name)) for name in names}
    published = experiment.published(case)
    predicted = experiment.predicted(case, {name: value for name, (value, _) in measured.items() if value is not None})
    names |= dict.fromkeys([*published, *predicted])
    return {
        name: _figure(name, *measured.get(name, (None, None)), published.get(name), predicted.get(name))
        for name in names
    }


def _mean(record: Record, series: dict[int, float]) -> tuple[float | None, Interval | None]:
    values = list(series.values())
    if not values or not all(map(math.isfinite, values)):
        return None, None
    try:
        found = interval_of_mean(values, DISPLAY_LEVEL, record.sites_of(series))
        return found.estimate, found
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


def effects(experiment: Experiment, record: Record, judgements: list[ClaimJudgement]) -> list[EffectRow]:
    """Return a row for each effect that the question asks for, on each engine; empty for other experiments."""
    if experiment.asked is None:
        return []
    known = {(each.id, each.engine): each for each in judgements}
    return [
        _row(experiment, record, engine, effect, known.get((effect.claims[0], engine)))
        for engine in record.engines
        for effect in experiment.asked.effects()
        if _engine(experiment, effect.case) == engine
    ]


def _row(
    experiment: Experiment, record: Record, engine: str, effect: Effect, found: ClaimJudgement | None
) -> EffectRow:
    sure = found is not None and found.verdict is Verdict.HOLDS
    ratio = found.interval if found else None
    p50, p99 = (
        _difference(experiment, record, engine, effect, name) if sure else None
        for name in ("latency_p50_ms", "latency_p99_ms")
    )
    asked = experiment.asked
    paced, counts = (asked.is_paced, asked.counts) if asked else (False, "commit")
    of = f"{counts} p50" if paced else "throughput"
    if sure and ratio:
        later = {f"{counts} p50": p50, **({"p99": p99} if paced else {})}
        sentence = _macros().known(effect, of, paced, ratio, later)
    else:
        sentence = _cannot_keep(experiment, record, effect) or _macros().unknown(effect, of, found)
    return EffectRow(
        engine=engine,
        changed=effect.changed,
        common=effect.common,
        case=effect.case,
        baseline=effect.baseline,
        known=sure,
        claims=effect.claims,
        throughput_ratio=None if paced else ratio,
        latency_p50_ratio=ratio if paced else None,
        latency_p50_difference_ms=p50,
        latency_p99_difference_ms=p99 if paced else None,
        sentence=str(sentence).strip(),
    )


def _difference(experiment: Experiment, record: Record, engine: str, effect: Effect, name: str) -> Interval | None:
    """Return the interval of the case's figure minus the baseline's, paired by round; None without one."""
    more = record.series(engine, effect.case, name)
    less = record.series(_engine(experiment, effect.baseline) or engine, effect.baseline, name)
    values = {n: more[n] - less[n] for n in more if n in less}
    level = experiment.plan(record).level_of_estimate
    try:
        return interval_of_mean(list(values.values()), level, record.sites_of(values))
    except NoInterval:
        return None


def _engine(experiment: Experiment, case: str) -> str:
    return experiment.lab_of(experiment.case(case)).engine


def _cannot_keep(experiment: Experiment, record: Record, effect: Effect) -> str:
    """Return which case did not keep its rate, and the rate that it achieved; empty if both did."""
    for case in (effect.case, effect.baseline):
        for m in record.quiet(_engine(experiment, case), case).values():
            asked, achieved = m.figures.get("rate_asked"), m.figures.get("rate_achieved")
            if asked and achieved is not None and not kept(asked, achieved).ok:
                return str(_macros().cannot_keep(effect, case, asked, achieved))
    return ""


def _macros() -> Any:
    return templates.macros("effects.j2", about=about)
