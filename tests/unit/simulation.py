"""Whole sequential runs, thousands at a time, to see how often a method's verdicts are wrong.

The unit tests assert on `run`; `python tests/unit/simulation.py` prints the tables of docs/statistics.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from replication_lab.model.core import statistics
from replication_lab.model.core.statistics import Plan
from replication_lab.model.experiment.relations import FEWEST_TO_GIVE_UP
from scipy.special import stdtrit

SLOW_ROUND = np.log(1.5)


def _normal(percent: float) -> Callable:
    return lambda dice, size: dice.normal(0, percent / 100, size)


def _slow_rounds(dice, size):
    return dice.normal(0, 0.02, size) + SLOW_ROUND * (dice.random(size) < 0.1)


def _paired(noise: Callable) -> Callable:
    return lambda dice, size: noise(dice, size) - noise(dice, size)


def _drifting(dice, size):
    """Slow both cases of a round down alike, by 3 % a round; only what they do not share remains."""
    drift = 0.03 * np.arange(size[-1])
    return (drift + _normal(5)(dice, size)) - (drift + _normal(5)(dice, size))


# Computing loads on a virtual machine whose cores others use as well, as temporary_tables found them on 2026-11-27.
SPEED = 0.12  # the standard deviation of the logarithm of the CPUs' speed
POWER = 1.34  # a query's time grows with this power of the loop's
QUERY, LOOP = 0.045, 0.03  # the standard deviations of what else varies


def _computing(dice, size) -> tuple:
    """Return the logs of a query's time and of the loop beside it."""
    speed = dice.normal(0, SPEED, size)
    return POWER * speed + dice.normal(0, QUERY, size), speed + dice.normal(0, LOOP, size)


def _in_loops(dice, size):
    time, loop = _computing(dice, size)
    return time - loop


def autoregressive(dice: np.random.Generator, size: tuple[int, int], correlation: float) -> np.ndarray:
    """Return series of normal noise of variance 1, each value of which has this correlation with the one before it."""
    noise = dice.normal(0, 1, size)
    for at in range(1, size[1]):
        noise[:, at] = correlation * noise[:, at - 1] + np.sqrt(1 - correlation**2) * noise[:, at]
    return noise


def _correlated(correlation: float) -> Callable:
    return lambda dice, size: 0.05 * np.sqrt(2) * autoregressive(dice, size, correlation)


# The noise of a log ratio, by name. Its median is 0, so the typical ratio is the true one.
SHAPES = {
    "lognormal 1 %": _paired(_normal(1)),
    "lognormal 5 %": _paired(_normal(5)),
    "lognormal 15 %": _paired(_normal(15)),
    "slow rounds ×1.5 (p=0.1), both cases": _paired(_slow_rounds),
    "slow rounds ×1.5 (p=0.1), one case": lambda dice, size: _slow_rounds(dice, size) - _normal(2)(dice, size),
    "heavy tails (t, 3 df) of 3 %": _paired(lambda dice, size: 0.03 * dice.standard_t(3, size)),
    "common drift of 3 % a round": _drifting,
    "CPUs of uneven speed, times": _paired(lambda dice, size: _computing(dice, size)[0]),
    "CPUs of uneven speed, loops": _paired(_in_loops),
}


# The same for rounds that resemble the one before them: lognormal noise of 5 % in each case, by the correlation.
CORRELATED = {each: _correlated(each) for each in (-0.5, -0.3, 0.0, 0.1, 0.3, 0.5)}


@dataclass(frozen=True)
class Outcome:
    """Shares of the runs that ended HOLDS and REFUTED, and the mean number of rounds until the end."""

    holds: float
    refuted: float
    rounds: float


def run(
    shape: str | float,
    plan: Plan,
    *,
    ratio: float,
    bound: float,
    runs: int,
    seed: int = 1,
    interval: Callable | None = None,
    level: float | None = None,
    gives_up: bool = True,
) -> Outcome:
    """Run the claim "ratio ≥ bound" when the typical ratio is `ratio`: one look a round, until decided or given up."""
    noise = SHAPES[shape] if isinstance(shape, str) else CORRELATED[shape]
    logs = np.log(ratio) + noise(np.random.default_rng(seed), (runs, plan.max_rounds))
    verdicts, ended, over = np.zeros(runs, int), np.full(runs, plan.max_rounds), np.zeros(runs, bool)
    for rounds in range(plan.min_rounds, plan.max_rounds + 1):
        low, high = (interval or statistics.t_interval)(logs[:, :rounds], level or plan.level)
        now = np.where(low >= np.log(bound), 1, np.where(high < np.log(bound), -1, 0))
        hopeless = np.zeros(runs, bool)
        if gives_up:
            hopeless = (now == 0) & _is_hopeless(low, high, np.log(bound), rounds, plan, level or plan.level)
        fresh = ~over & ((now != 0) | hopeless)
        verdicts[fresh], ended[fresh] = now[fresh], rounds
        over |= fresh
    return Outcome(float(np.mean(verdicts > 0)), float(np.mean(verdicts < 0)), float(ended.mean()))


def _is_hopeless(low, high, bound, rounds: int, plan: Plan, level: float):
    """Give up as `relations.Bounds` does, for many runs at once."""
    if not FEWEST_TO_GIVE_UP <= rounds < plan.max_rounds:
        return np.zeros(len(low), bool)
    quantiles = stdtrit([rounds - 1, plan.max_rounds - 1], (1 + level) / 2)
    half_at_end = (high - low) / 2 * quantiles[1] / quantiles[0] * np.sqrt(rounds / plan.max_rounds)
    return np.abs(bound - (low + high) / 2) < half_at_end / 2


def wrong_with_a_slope(cases: int, plan: Plan, *, runs: int, seed: int = 1) -> float:
    """Return the share of runs in which the ratio of two of `cases` equal times seems to be above 1 at any look.

    Each time is corrected by its loop to the power of the slope that all cases of the run so far have in common.
    """
    times, loops = _computing(np.random.default_rng(seed), (runs, cases, plan.max_rounds))
    above = np.zeros(runs, bool)
    for rounds in range(plan.min_rounds, plan.max_rounds + 1):
        time, loop = times[..., :rounds], loops[..., :rounds]
        beside = loop - loop.mean(axis=-1, keepdims=True)
        slope = (beside * time).sum(axis=(1, 2)) / (beside**2).sum(axis=(1, 2))
        corrected = time - slope[:, None, None] * loop
        above |= statistics.t_interval(corrected[:, 0] - corrected[:, 1], plan.level)[0] > 0
    return float(np.mean(above))


def bootstrap(method: str) -> Callable:
    """Return an interval of the mean by scipy's bootstrap, for comparison."""
    from scipy.stats import bootstrap as resample

    def interval(values, level):
        found = resample(
            (values,),
            np.mean,
            axis=-1,
            confidence_level=level,
            n_resamples=999,
            method=method,
            rng=np.random.default_rng(5),
        ).confidence_interval
        return found.low, found.high

    return interval


def order_statistics(values, level):
    """Return the smallest and largest value, which hold the median with 1 - 2/2^n; no interval until that suffices."""
    enough = 1 - 2 * 0.5 ** values.shape[-1] >= level
    return (values.min(axis=-1), values.max(axis=-1)) if enough else (np.full(len(values), -np.inf), np.inf)


def candidates(plan: Plan) -> str:
    """Return the table of how often each method's verdicts are wrong at the boundary, in per cent."""
    looks = plan.max_rounds - plan.min_rounds + 1
    bonferroni = 1 - plan.alpha / looks
    methods = {
        "t, calibrated, gives up (used)": (statistics.t_interval, plan.level, 20_000, True),
        "t, calibrated": (statistics.t_interval, plan.level, 20_000, False),
        "t, Bonferroni, both sides": (statistics.t_interval, bonferroni, 20_000, False),
        "t, looks not corrected for": (statistics.t_interval, 1 - 2 * plan.alpha, 20_000, False),
        "bootstrap percentile, Bonferroni": (bootstrap("percentile"), bonferroni, 1_000, False),
        "bootstrap BCa, Bonferroni": (bootstrap("BCa"), bonferroni, 1_000, False),
        "order statistics, Bonferroni": (order_statistics, bonferroni, 20_000, False),
    }
    rows = []
    for shape in SHAPES:
        wrong = [
            run(shape, plan, ratio=0.9, bound=0.9, runs=runs, interval=interval, level=level, gives_up=gives_up)
            for interval, level, runs, gives_up in methods.values()
        ]
        rows.append([shape, *(f"{100 * w.holds:.1f} / {100 * w.refuted:.1f}" for w in wrong)])
    return _table(f"### HOLDS and REFUTED at the boundary, {_rounds(plan)} (%)", ["noise", *methods], rows)


def correlated() -> str:
    """Return the table of how often the verdicts of correlated rounds are wrong at the boundary, in per cent."""
    plans, rows = (Plan(3, 8), Plan(3, 12)), []
    for correlation in CORRELATED:
        wrong = [run(correlation, plan, ratio=0.9, bound=0.9, runs=20_000) for plan in plans]
        rows.append([f"{correlation:g}", *(f"{100 * w.holds:.1f} / {100 * w.refuted:.1f}" for w in wrong)])
    title = "### HOLDS and REFUTED at the boundary, rounds that are correlated with the one before (%)"
    return _table(title, ["correlation", *map(_rounds, plans)], rows)


def speeds(plan: Plan) -> str:
    """Return the table of how many claims are decided, in per cent, and after how many rounds."""
    distances = (1, 1.02, 1.05, 1.1, 1.2, 1.5)
    rows = []
    for shape in SHAPES:
        found = [run(shape, plan, ratio=0.9 * d, bound=0.9, runs=5_000, seed=2) for d in distances]
        rows.append([shape, *(f"{100 * o.holds:.0f} / {o.rounds:.1f}" for o in found)])
    title = f"### Decided HOLDS (%) and mean rounds, true ratio above the bound, {_rounds(plan)}"
    return _table(title, ["noise", *(f"×{d}" for d in distances)], rows)


def slopes(plan: Plan) -> str:
    """Return the row of how often a claim at its boundary seems to hold, by the number of cases in the record."""
    wrong = [100 * wrong_with_a_slope(cases, plan, runs=20_000) for cases in (2, 3, 4, 9, 27)]
    return "| corrected by the slope of the record (%) | " + " | ".join(f"{share:.1f}" for share in wrong) + " |"


def _rounds(plan: Plan) -> str:
    return f"rounds {plan.min_rounds} to {plan.max_rounds}"


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [title, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    for plan in (Plan(3, 8), Plan(3, 12)):
        print(candidates(plan), speeds(plan), sep="\n\n", end="\n\n")
    print(correlated(), slopes(Plan(3, 8)), sep="\n\n")
