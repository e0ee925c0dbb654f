"""The effect of each setting of a user's question: on the throughput as a share, on the median latency in ms."""

from replication_lab.model.claim import ClaimJudgement
from replication_lab.model.experiment import Experiment
from replication_lab.model.quantities import Difference, latency_p50
from replication_lab.model.question import Effect
from replication_lab.model.record import Record
from replication_lab.model.statistics import Interval, NoInterval
from replication_lab.model.verdict import Verdict
from replication_lab.report.rows import EffectRow, IntervalRow


def effects(experiment: Experiment, record: Record, judgements: list[ClaimJudgement]) -> list[EffectRow]:
    """Return a row for each effect that the question asks for, on each engine; empty for other experiments."""
    if experiment.asked is None:
        return []
    known = {(each.claim, each.engine): each for each in judgements}
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
    later = _difference(experiment, record, engine, effect) if sure else None
    return EffectRow(
        engine=engine,
        changed=effect.changed,
        common=effect.common,
        case=effect.case,
        baseline=effect.baseline,
        known=sure,
        claims=list(effect.claims),
        throughput_ratio=_as_row(ratio),
        latency_p50_difference_ms=_as_row(later),
        sentence=_sentence(effect, ratio, later) if sure and ratio else _unknown(effect, found),
    )


def _difference(experiment: Experiment, record: Record, engine: str, effect: Effect) -> Interval | None:
    figure = Difference(latency_p50(effect.case), latency_p50(effect.baseline, _engine(experiment, effect.baseline)))
    try:
        return figure.interval(record, engine, experiment.plan(record).level_of_estimate)
    except NoInterval:
        return None


def _engine(experiment: Experiment, case: str) -> str:
    return experiment.lab_of(experiment.case(case)).engine


def _as_row(found: Interval | None) -> IntervalRow | None:
    return None if found is None else IntervalRow(low=found.low, high=found.high, n=found.n, level=found.level)


def _sentence(effect: Effect, ratio: Interval, later: Interval | None) -> str:
    """Return "sync_binlog=1 costs 23 % [19–27] of the throughput, commit p50 +1.9 ms [+1.7–+2.1]"."""
    low, high = 100 * (1 - ratio.high), 100 * (1 - ratio.low)
    if ratio.high < 1:
        told = f"costs {100 * (1 - ratio.estimate):.0f} % [{low:.0f}–{high:.0f}] of the throughput"
    elif ratio.low > 1:
        told = f"gains {100 * (ratio.estimate - 1):.0f} % [{-high:.0f}–{-low:.0f}] of the throughput"
    else:
        told = f"makes no difference to the throughput larger than {max(-low, high):.0f} % (95 %)"
    if later is None:
        return f"{effect.changed} {told}"
    return f"{effect.changed} {told}, commit p50 {later.estimate:+.3g} ms [{later.low:+.3g} to {later.high:+.3g}]"


def _unknown(effect: Effect, found: ClaimJudgement | None) -> str:
    if found is None:
        return f"{effect.changed}: not known, it was not measured on this engine"
    if found.doubted or found.interval is None:
        return f"{effect.changed}: not known, {found.reason}"
    seen = f"{found.interval.estimate:.3g} times [{found.interval.low:.3g}–{found.interval.high:.3g}] the throughput"
    more = f"; about {found.needed} rounds would be" if found.needed else ""
    return f"{effect.changed}: {seen} after {found.rounds} rounds, which is not precise enough{more}"
