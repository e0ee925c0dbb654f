"""The effect of each setting of a user's question: on the throughput as a share, on the median latency in ms.

At a given rate the throughput is the requested one, so only latencies differ.
"""

from functools import cache
from typing import Any

from replication_lab.model.core.statistics import Interval, NoInterval, about
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.quantities import Difference, Figure
from replication_lab.model.question.question import Effect
from replication_lab.model.question.rate import kept
from replication_lab.model.record.record import Record
from replication_lab.report import templates
from replication_lab.report.rows import EffectRow


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
    figure = Difference(Figure(effect.case, name), Figure(effect.baseline, name, _engine(experiment, effect.baseline)))
    try:
        return figure.interval(record, engine, experiment.plan(record).level_of_estimate)
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


@cache
def _macros() -> Any:
    return templates.macros("effects.j2", about=about)
