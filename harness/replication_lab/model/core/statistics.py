"""Intervals on per-round figures, wide enough for every interim look of a sequential run.

The method is Student's t on the logarithms of paired ratios (or on plain values), at a level that is calibrated for the
planned looks. docs/statistics.md compares it with other methods by simulation.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from replication_lab.model.core.groups import grouped

if TYPE_CHECKING:  # it takes long to import
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

FEWEST_OF_A_MEAN, FEWEST_OF_A_SLOPE = 2, 5
LEVEL_OF_SLOPE = 0.95
# A bound for the number of rounds in messages.
MOST_ROUNDS = 10_000
# A spread of logarithms below this is that of rounded digits.
ROUNDING = 1e-6


class NoInterval(ValueError):
    """An error for figures from which no interval can be computed, with the reason. The verdict is then UNKNOWN."""


@dataclass(frozen=True)
class Plan:
    """The number of quiet rounds of a run and the accepted risk of a wrong verdict per claim.

    The run looks at its figures after each round from `min_rounds` to `max_rounds`. All looks have the same risk, such
    that the probability of any wrong decision among them is at most `alpha`.
    """

    min_rounds: int = 3
    max_rounds: int = 8
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not FEWEST_OF_A_MEAN <= self.min_rounds <= self.max_rounds:
            raise ValueError(
                f"expected 2 <= min_rounds <= max_rounds, found {self.min_rounds} and {self.max_rounds}; "
                "one round has no spread, so nothing can be decided by it"
            )
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is a probability between 0 and 1, found {self.alpha}")

    @property
    def level(self) -> float:
        """Confidence level of an interval that decides a claim at a single look.

        A claim is true or false. If it is false only HOLDS is wrong, if it is true only REFUTED is wrong. So each side
        of the interval may have the whole risk `alpha`.
        """
        return 1 - 2 * risk_of_a_look(self.min_rounds, self.max_rounds, self.alpha)

    @property
    def level_of_estimate(self) -> float:
        """Confidence level of an interval that is itself the answer: both sides together have the risk `alpha`."""
        return 1 - 2 * risk_of_a_look(self.min_rounds, self.max_rounds, self.alpha / 2)


def about(rounds: int) -> str:
    """Return a number of rounds that would be needed in words, with two significant digits."""
    return f"about {float(f'{rounds:.2g}'):.0f}" if rounds < MOST_ROUNDS else f"more than {MOST_ROUNDS}"


class Interval(msgspec.Struct, frozen=True, omit_defaults=True):
    """An estimate from `n` rounds with its confidence interval; all figures finite, in the unit of the values.

    `of_logs` means that it was computed from the logarithms of the values. `sides` is the number of samples of about
    `n` values each that it was computed from: 2 for the ratio of two runs. `blocks` is the number of sites that the
    values come from.
    """

    estimate: float
    low: float
    high: float
    n: int
    level: float
    of_logs: bool = False
    sides: int = 1
    blocks: int = 1

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.estimate, self.low, self.high))):
            raise NoInterval(
                f"the computation gave {self.estimate} [{self.low}, {self.high}], which is not an interval"
            )

    def distance(self, value: float) -> float:
        """Return the distance of a value from the estimate, on the scale on which the interval is symmetrical."""
        return abs(self._scaled(value) - self._scaled(self.estimate))

    def half_after(self, rounds: int) -> float:
        """Return half the width that the interval would have after this many rounds with the same spread."""
        half = (self._scaled(self.high) - self._scaled(self.low)) / 2
        degrees = [self.sides * (each - self.blocks) for each in (self.n, rounds)]
        quantiles = t_quantile(degrees, self.level)
        return float(half * quantiles[1] / quantiles[0] * math.sqrt(self.n / rounds))

    def rounds_until(self, half: float) -> int:
        """Return about the number of rounds after which half its width would be at most `half`; at most MOST_ROUNDS."""
        return bisect_left(range(MOST_ROUNDS), -half, lo=self.n, key=lambda rounds: -self.half_after(rounds))

    def _scaled(self, value: float) -> float:
        return (math.log(value) if value > 0 else -math.inf) if self.of_logs else value


def t_quantile(degrees: "ArrayLike", level: float) -> Any:
    """Return the quantile of Student's t for an interval of this level, for each number of degrees of freedom.

    This is used instead of scipy.stats, whose tests take a millisecond each: a run judges its claims after every round.
    """
    from scipy.special import stdtrit

    return stdtrit(degrees, (1 + level) / 2)


def interval_of_mean(values: Sequence[float], level: float, blocks: Sequence[str] = ()) -> Interval:
    """Return Student's t interval of the mean. Raise NoInterval for fewer than 2, non-finite or all equal values.

    `blocks` names the site of each value, if there are several: each site has a mean of its own. The estimate is the
    mean of these means, and only the spread within the sites counts (a two-way layout without interaction).
    """
    _check(values)
    if len(set(blocks)) > 1:
        return _interval_of_blocks(values, level, blocks)
    low, high = t_interval(values, level)
    return Interval(math.fsum(values) / len(values), float(low), float(high), len(values), level)


def _interval_of_blocks(values: Sequence[float], level: float, blocks: Sequence[str]) -> Interval:
    parts = grouped(zip(blocks, values, strict=True))
    count, degrees = len(parts), len(values) - len(parts)
    if not degrees:
        raise NoInterval(f"an interval over {count} sites needs more than {count} rounds")
    means = {block: math.fsum(part) / len(part) for block, part in parts.items()}
    within = sum((value - means[block]) ** 2 for block, part in parts.items() for value in part) / degrees
    if within < ROUNDING**2:
        raise NoInterval("all rounds of a site gave exactly the same figure, so its spread is unknown")
    half = float(t_quantile(degrees, level)) * math.sqrt(within * sum(1 / len(part) for part in parts.values()))
    middle, half = math.fsum(means.values()) / count, half / count
    return Interval(middle, middle - half, middle + half, len(values), level, blocks=count)


def interval_of_ratio(pairs: Sequence[tuple[float, float]], level: float, blocks: Sequence[str] = ()) -> Interval:
    """Return the interval of the typical ratio of (numerator, denominator) pairs: Student's t on log ratios.

    The estimate is the geometric mean. Effects that both sides of a pair share (a warm CPU, a busy disk, a drift)
    cancel. `blocks` are those of `interval_of_mean`. Raise NoInterval as it does, and for figures that are not
    positive, since they have no logarithm.
    """
    for pair in pairs:
        if not all(math.isfinite(side) and side > 0 for side in pair):
            raise NoInterval(f"a ratio needs two positive figures, found {pair[0]:g} and {pair[1]:g}")
    logs = interval_of_mean([math.log(over / under) for over, under in pairs], level, blocks)
    middle, low, high = (math.exp(each) for each in (logs.estimate, logs.low, logs.high))
    return Interval(middle, low, high, logs.n, level, of_logs=True, blocks=logs.blocks)


def interval_between(before: Sequence[float], after: Sequence[float], level: float) -> Interval:
    """Return the interval of the typical ratio of unpaired positive values, after over before: Welch's t on logarithms.

    `n` is the number of values of the smaller side. Raise NoInterval as `interval_of_ratio` does.
    """
    sides = [interval_of_ratio([(value, 1.0) for value in values], level) for values in (before, after)]
    old, new = sides
    # The squared standard error of each side's mean, from the half width of its own interval.
    errors = [(one.half_after(one.n) / t_quantile(one.n - 1, level)) ** 2 for one in sides]
    degrees = sum(errors) ** 2 / sum(error**2 / (one.n - 1) for error, one in zip(errors, sides, strict=True))
    half = t_quantile(degrees, level) * math.sqrt(sum(errors))
    return interval_of_logs(math.log(new.estimate / old.estimate), half, min(old.n, new.n), level)


def interval_of_logs(middle: float, half: float, n: int, level: float) -> Interval:
    """Return the interval of the ratio of two samples, from its logarithm; `n` are the values of the smaller one."""
    low, high = math.exp(middle - half), math.exp(middle + half)
    return Interval(math.exp(middle), low, high, n, level, of_logs=True, sides=2)


def interval_between_at_equal(
    before: Sequence[float],
    after: Sequence[float],
    beside: tuple[Sequence[float], Sequence[float]],
    level: float,
) -> Interval:
    """Return the interval of the typical ratio, after over before, as it would be at an equal value of a covariate.

    This is an analysis of covariance on logarithms: least squares of each side's mean and of one slope over the
    covariate, whose values `beside` has for each side; Student's t with n - 3 degrees of freedom. The interval is the
    wider, the less the covariate varies within the sides compared with its difference between them. `n` is the number
    of values of the smaller side. Raise NoInterval for values that are not positive, or too few or alike.
    """
    import numpy as np

    sides = [*before, *after], [*beside[0], *beside[1]]
    degrees = len(sides[0]) - 3
    if degrees < 1 or not before or not after or min(map(min, sides)) <= 0:
        raise NoInterval("a ratio at an equal covariate needs four positive values, and some on each side")
    values, covariate = (np.log(side) for side in sides)
    second = np.repeat([0.0, 1.0], [len(before), len(after)])
    model = np.column_stack([np.ones(len(values)), second, covariate - covariate.mean()])
    if np.linalg.matrix_rank(model) < model.shape[1]:
        raise NoInterval("the covariate does not vary within a side")
    found, *_ = np.linalg.lstsq(model, values, rcond=None)
    residual = np.sum((values - model @ found) ** 2) / degrees
    if residual < ROUNDING**2:
        raise NoInterval("all values are a function of the covariate, so the spread is unknown")
    error = math.sqrt(residual * np.linalg.inv(model.T @ model)[1, 1])
    middle, half = float(found[1]), float(t_quantile(degrees, level)) * error
    return interval_of_logs(middle, half, min(len(before), len(after)), level)


def t_interval(values: "ArrayLike", level: float) -> tuple["NDArray[np.float64]", "NDArray[np.float64]"]:
    """Return the bounds of Student's t interval of the mean along the last axis; a simulation judges many runs."""
    import numpy as np

    rounds = np.asarray(values, float)
    n = rounds.shape[-1]
    half = t_quantile(n - 1, level) * np.std(rounds, axis=-1, ddof=1) / math.sqrt(n)
    middle = np.mean(rounds, axis=-1)
    return middle - half, middle + half


def slope(times: Sequence[float], values: Sequence[float]) -> Interval:
    """Return the typical rise of `values` in a unit of time: the median of the slopes between all pairs (Theil, Sen).

    A few outliers hardly change it. Raise NoInterval for fewer than FEWEST_OF_A_SLOPE readings.
    """
    import numpy as np
    from scipy.stats import theilslopes

    if len(times) < FEWEST_OF_A_SLOPE:
        raise NoInterval(f"a slope needs at least {FEWEST_OF_A_SLOPE} readings, found {len(times)}")
    if min(times) == max(times):
        raise NoInterval("all readings were taken at the same moment")
    with np.errstate(invalid="ignore"):
        found = theilslopes(values, times, LEVEL_OF_SLOPE)
    if np.isnan(found.low_slope):
        raise NoInterval("too many readings are the same")
    return Interval(float(found.slope), float(found.low_slope), float(found.high_slope), len(times), LEVEL_OF_SLOPE)


def highest_share(trials: int, level: float = 0.95) -> float:
    """Return the highest share of bad trials that is compatible with none seen in `trials`.

    This is Clopper and Pearson's exact one-sided bound, which has a closed form for none seen.
    """
    return 1 - math.pow(1 - level, 1 / trials)


def _check(values: Sequence[float]) -> None:
    if any(not math.isfinite(value) for value in values):
        raise NoInterval("a round's figure could not be computed")
    if len(values) < FEWEST_OF_A_MEAN:
        raise NoInterval(f"an interval needs at least {FEWEST_OF_A_MEAN} rounds, found {len(values)}")
    if math.isclose(min(values), max(values), rel_tol=1e-12, abs_tol=1e-12):
        raise NoInterval(
            f"all {len(values)} rounds gave exactly the same figure, so its spread is unknown; "
            "a figure that never varies is stuck or rounded too far"
        )


PATHS = 40_000
SEED = 1
# Bisections of the interval in which the risk is searched: to a 65 000th of it.
STEPS = 16


@cache
def risk_of_a_look(min_rounds: int, max_rounds: int, alpha: float) -> float:
    """Return the risk of one look on one side, if all looks on that side together may have the risk `alpha`.

    The run looks after each round from `min_rounds` to `max_rounds`. The risk is reduced by a margin of two standard
    errors of the simulation.
    """
    if min_rounds == max_rounds:
        return alpha
    from scipy.special import stdtrit

    paths = _paths(max_rounds)[:, min_rounds - 2 :]
    degrees = range(min_rounds - 1, max_rounds)
    # Both tails of a path count, since the noise is symmetrical.
    allowed = alpha - 2 * math.sqrt(alpha * (1 - alpha) / (2 * PATHS))
    low, high = alpha / (max_rounds - min_rounds + 1) / 2, alpha
    # A path within the limits of the largest risk is within those of every smaller one.
    widest = stdtrit(degrees, 1 - high)
    above, below = (side[(side > widest).any(axis=1)] for side in (paths, -paths))
    for _ in range(STEPS):
        risk = (low + high) / 2
        limits = stdtrit(degrees, 1 - risk)
        wrong = sum(int((side > limits).any(axis=1).sum()) for side in (above, below)) / PATHS / 2
        low, high = (risk, high) if wrong <= allowed else (low, risk)
    return low


@cache
def _paths(max_rounds: int) -> "NDArray[np.float64]":
    """Return Student's t after 2, 3, … `max_rounds` rounds of normal noise: one row for each path."""
    import numpy as np

    noise = np.random.default_rng(SEED).standard_normal((PATHS, max_rounds))
    counts = np.arange(1, max_rounds + 1)
    sums, squares = noise.cumsum(axis=1), (noise**2).cumsum(axis=1)
    spread = np.sqrt((squares - sums**2 / counts)[:, 1:] / (counts[1:] - 1))
    return sums[:, 1:] / np.sqrt(counts[1:]) / spread
