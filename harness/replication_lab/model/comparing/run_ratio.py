"""The ratio of a figure in some runs to that in others, with an interval that includes how equal runs differ.

All rounds of a run share what the run has: where the files of its lab lie on the disk, which CPUs it got, what else the
machine did. More rounds do not show that. It is estimated from the means of several runs, and assumed for few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from replication_lab.model.core.statistics import (
    ROUNDING,
    Interval,
    NoInterval,
    interval_between,
    interval_between_at_equal,
    interval_of_logs,
    t_quantile,
)

if TYPE_CHECKING:  # it takes long to import
    import numpy as np
    from numpy.typing import NDArray

# The standard deviation of the logarithm of a rate between equal runs, as measured on two CPUs that others use too.
RUN_EFFECT = 0.06
# With fewer degrees of freedom Student's t on the runs' means is wider than the assumption.
FEWEST_DEGREES = 4
# A bound for the number of runs in messages.
MOST_RUNS = 1000
# For each run the values of its rounds.
Runs = Sequence[Sequence[float]]


@dataclass(frozen=True)
class RunRatio:
    """The ratio, after over before, and the standard deviation of the logarithms of the means of equal runs.

    `is_assumed` means that there were too few runs to estimate it: it is then the assumed one and that of the rounds.
    """

    interval: Interval
    spread: float
    is_assumed: bool

    def runs_until(self, half: float) -> int:
        """Return about the number of runs on each side after which half its width is at most `half`."""
        return next((n for n in range(1, MOST_RUNS) if self._half_after(n) <= half), MOST_RUNS)

    def _half_after(self, runs: int) -> float:
        return _quantile(2 * runs - 2, self.interval.level) * self.spread * math.sqrt(2 / runs)


def ratio_of_runs(before: Runs, after: Runs, level: float, beside: tuple[Runs, Runs] | None = None) -> RunRatio:
    """Return the ratio of the typical values of positive figures; at an equal value of a covariate, if it is given.

    From six runs in all on, this is Student's t on the means of the runs' logarithms. For fewer, it is the interval of
    all rounds, widened by the assumed difference of equal runs. Raise NoInterval as `interval_between` does.
    """
    degrees = len(before) + len(after) - 2
    if degrees >= FEWEST_DEGREES:
        return _of_means(before, after, level, beside)
    old, new = list(chain(*before)), list(chain(*after))
    if beside is None:
        within = interval_between(old, new, level)
    else:
        within = interval_between_at_equal(old, new, (list(chain(*beside[0])), list(chain(*beside[1]))), level)
    between = _quantile(degrees, level) * RUN_EFFECT * math.sqrt(1 / len(before) + 1 / len(after))
    middle = math.log(within.estimate)
    half = math.hypot((math.log(within.high) - math.log(within.low)) / 2, between)
    spread = half / between * RUN_EFFECT
    return RunRatio(interval_of_logs(middle, half, min(len(old), len(new)), level), spread, is_assumed=True)


def _of_means(before: Runs, after: Runs, level: float, beside: tuple[Runs, Runs] | None) -> RunRatio:
    import numpy as np

    runs = [*before, *after]
    if not all(value > 0 and math.isfinite(value) for run in runs for value in run):
        raise NoInterval("a ratio needs positive figures")
    means = np.array([np.log(run).mean() for run in runs])
    if beside is not None:
        means -= _explained(runs, [*beside[0], *beside[1]])
    old, new = means[: len(before)], means[len(before) :]
    degrees = len(runs) - 2
    spread = math.sqrt((np.sum((old - old.mean()) ** 2) + np.sum((new - new.mean()) ** 2)) / degrees)
    if spread < ROUNDING:
        raise NoInterval("all runs gave exactly the same figure, so their spread is unknown")
    half = _quantile(degrees, level) * spread * math.sqrt(1 / len(before) + 1 / len(after))
    n = min(len(before[0]), len(after[0]))
    return RunRatio(interval_of_logs(float(new.mean() - old.mean()), half, n, level), spread, is_assumed=False)


def _explained(runs: Runs, beside: Runs) -> "NDArray[np.float64]":
    """Return the part of each run's mean that its covariate explains, by the slope that the rounds have within runs."""
    import numpy as np

    values, covariate = ([np.log(run) for run in each] for each in (runs, beside))
    above = [each - each.mean() for each in covariate]
    squares = sum(float(each @ each) for each in above)
    if squares < ROUNDING**2:
        raise NoInterval("the covariate does not vary within a run")
    slope = sum(float(each @ run) for each, run in zip(above, values, strict=True)) / squares
    means = np.array([each.mean() for each in covariate])
    explained: NDArray[np.float64] = slope * (means - means.mean())
    return explained


def _quantile(degrees: int, level: float) -> float:
    """Return the quantile of Student's t; that of the normal distribution where the spread is assumed."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2) if degrees < FEWEST_DEGREES else t_quantile(degrees, level))
