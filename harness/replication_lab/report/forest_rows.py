"""The rows of the forest plots: of claims, of the effects of a question, of the changes between two runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.comparing.comparison import ComparedOutcome, FigureChange
from replication_lab.model.core.statistics import Interval
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import forest, wording
from replication_lab.report.forest import Bar
from replication_lab.report.rows import EffectRow

TONES = {"HOLDS": "good", "KNOWN": "note", "CHANGED": "bad", "UNKNOWN": "doubt"}
SYMBOLS = {"good": "●", "note": "◇", "bad": "◆", "doubt": "□"}
# What needs a reader's attention comes first.
ORDER = {"bad": 0, "doubt": 1, "note": 2, "good": 3}
OUTCOMES = {ComparedOutcome.FINE: "good", ComparedOutcome.WORSE: "bad", ComparedOutcome.UNKNOWN: "doubt"}


@dataclass(frozen=True)
class Plot:
    """The axis and the pictures of some rows, in their order; a row without a place on the scale has None."""

    axis: str
    pictures: list[str | None]


def plot(bars: Sequence[Bar | None], told: str) -> Plot | None:
    """Draw rows on one scale; None if none of them has a place there."""
    drawn = [bar for bar in bars if bar]
    if not drawn:
        return None
    on = forest.scale(drawn)
    return Plot(forest.axis(on, told), [forest.row(bar, on) if bar else None for bar in bars])


def in_order(claims: Sequence[ClaimJudgement]) -> list[ClaimJudgement]:
    return sorted(claims, key=lambda row: ORDER[TONES[wording.tone(row)]])


def of_claims(claims: Sequence[ClaimJudgement]) -> Plot | None:
    return plot([of_claim(row) for row in claims], "measured ÷ bound; log scale")


def of_claim(row: ClaimJudgement) -> Bar | None:
    if row.interval is None or row.measured is None:
        return None
    figures = (row.measured, row.interval.low, row.interval.high)
    told = f"{wording.verdict(row)}: measured {wording.measured(row)}, {bound(row)}"
    return forest.against(told, TONES[wording.tone(row)], figures, (row.least, row.most))


def bound(row: ClaimJudgement) -> str:
    """Return the bounds in words: ≥ 0.9, or 0.95–1.05."""
    if row.least is not None and row.most is not None:
        return f"{row.least:.4g}–{row.most:.4g}"
    if row.least is not None:
        return f"≥ {row.least:.4g}"
    return f"≤ {row.most:.4g}" if row.most is not None else ""


def of_effects(effects: Sequence[EffectRow]) -> Plot | None:
    return plot([_effect(row) for row in effects], "case ÷ baseline; log scale, 1× means no difference")


def _effect(row: EffectRow) -> Bar | None:
    found = row.throughput_ratio or row.latency_p50_ratio
    if found is None:
        return None
    return _ratio(row.sentence, "note" if row.known else "doubt", found)


def _ratio(told: str, tone: str, found: Interval) -> Bar | None:
    """Return the row of a ratio to 1: there is no bound, so nothing is shaded."""
    return Bar(told, tone, found.estimate, found.low, found.high, 1.0, 1.0) if found.low > 0 else None


def of_changes(changes: Sequence[FigureChange]) -> Plot | None:
    return plot([_change(each) for each in changes], "after ÷ before; log scale, 1× means no change")


def _change(change: FigureChange) -> Bar | None:
    found = change.ratio
    if found is None:
        return None
    told = f"{change.of} {change.figure}: {found.estimate:.3f} [{found.low:.3f}–{found.high:.3f}], {change.outcome}"
    return Bar(told, OUTCOMES[change.outcome], found.estimate, found.low, found.high, *change.allowed)
