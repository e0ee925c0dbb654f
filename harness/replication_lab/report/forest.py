"""Forest plots, row by row: each interval against its bound, as multiples of the bound on one log scale.

The rows are claims, the effects of a question, or the changes between two runs.

A row is a small picture in a table, so that sentences and figures beside it stay text on every screen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.comparing.comparison import ComparedOutcome, FigureChange
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import svg, wording
from replication_lab.report.rows import EffectRow
from replication_lab.report.svg import Scale

WIDTH, HEIGHT, MARGIN = 260, 24, 12
# What lies further away from the bound than this factor is drawn as an arrow at the edge.
FURTHEST = 1000.0
# A scale that shows less than this to each side would make a difference of a per mille look large.
NEAREST = 1.08
# The share of the rows whose intervals the scale has room for in any case.
SHARE_WITHIN = 0.8
# The labels of a scale that shows more than this factor to each side.
TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (100, (0.001, 0.01, 0.1, 1, 10, 100, 1000)),
    (16, (1 / 16, 0.25, 1, 4, 16)),
    (4, (0.25, 0.5, 1, 2, 4)),
    (2, (0.5, 1, 2)),
    (1.25, (0.8, 1, 1.25)),
    (1.1, (0.9, 1, 1.1)),
    (1, (0.95, 1, 1.05)),
)
# One marker for each tone: a filled circle, a hollow diamond, a filled diamond, a hollow square.
MARKERS = {"good": 0, "note": 6, "bad": 2, "doubt": 5}


@dataclass(frozen=True)
class Bar:
    """One row: a value with its interval, and where it should be; all as multiples of the reference."""

    told: str
    tone: str
    value: float
    low: float
    high: float
    least: float = 0.0
    most: float = math.inf


def against(
    told: str, tone: str, figures: tuple[float, float, float], bounds: tuple[float | None, float | None]
) -> Bar | None:
    """Return the row of a value with its interval against bounds; None if these have no place on a log scale."""
    given = [bound for bound in bounds if bound]
    if not given or min(*given, *figures) <= 0:
        return None
    by = math.exp(math.fsum(map(math.log, given)) / len(given))
    value, low, high = (figure / by for figure in figures)
    least, most = bounds
    return Bar(told, tone, value, low, high, least / by if least else 0.0, most / by if most else math.inf)


def scale(bars: Sequence[Bar]) -> Scale:
    """Return the scale of all rows, with the reference in its middle.

    It has room for most intervals, and for all those that do not hold: one value far from its bound would press the
    others into a point. What lies outside is an arrow.
    """
    distances = sorted(_distance(bar) for bar in bars)
    needed = [_distance(bar) for bar in bars if bar.tone != "good"]
    far = max([distances[int(SHARE_WITHIN * (len(distances) - 1))], *needed]) ** 1.15
    far = min(max(far, NEAREST), FURTHEST)
    return Scale(1 / far, far, MARGIN, WIDTH - MARGIN, log=True)


def _distance(bar: Bar) -> float:
    ends = [end for end in (bar.low, bar.high, bar.least, bar.most) if 0 < end < math.inf]
    return max(max(end, 1 / end) for end in ends)


def axis(on: Scale, told: str) -> str:
    """Return the labels above the rows."""
    ticks = [tick for tick in next(ticks for far, ticks in TICKS if on.high > far) if on.holds(tick)]
    return str(svg.elements().axis(on, ticks, _multiple, told, WIDTH, HEIGHT))


def _multiple(value: float) -> str:
    """Return ÷4, ×4, or 0.8× between half and twice."""
    if value <= 1 / 2:
        return f"÷{1 / value:g}"
    return f"×{value:g}" if value >= 2 else f"{value:g}×"  # noqa: PLR2004 - twice


def row(bar: Bar, on: Scale) -> str:
    """Return the picture of a row: where the claim holds, the reference, the interval, the value."""
    return str(svg.elements().forest_row(bar, MARKERS[bar.tone], on, WIDTH, HEIGHT))


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
    on = scale(drawn)
    return Plot(axis(on, told), [row(bar, on) if bar else None for bar in bars])


def in_order(claims: Sequence[ClaimJudgement]) -> list[ClaimJudgement]:
    return sorted(claims, key=lambda row: ORDER[wording.tone(row)])


def of_claims(claims: Sequence[ClaimJudgement]) -> Plot | None:
    return plot([of_claim(row) for row in claims], "measured ÷ bound; log scale")


def of_claim(row: ClaimJudgement) -> Bar | None:
    if row.interval is None or row.measured is None:
        return None
    figures = (row.measured, row.interval.low, row.interval.high)
    told = f"{wording.verdict(row)}: measured {wording.measured(row)}, {bound(row)}"
    return against(told, wording.tone(row), figures, (row.least, row.most))


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
    if found is None or found.low <= 0:
        return None
    # There is no bound, so nothing is shaded beside 1.
    return Bar(row.sentence, "note" if row.known else "doubt", found.estimate, found.low, found.high, 1.0, 1.0)


def of_changes(changes: Sequence[FigureChange]) -> Plot | None:
    return plot([_change(each) for each in changes], "after ÷ before; log scale, 1× means no change")


def _change(change: FigureChange) -> Bar | None:
    found = change.ratio
    if found is None:
        return None
    told = f"{change.of} {change.figure}: {found.estimate:.3f} [{found.low:.3f}–{found.high:.3f}], {change.outcome}"
    return Bar(told, OUTCOMES[change.outcome], found.estimate, found.low, found.high, *change.allowed)
