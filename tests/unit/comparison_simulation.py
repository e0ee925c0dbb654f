"""How often runs are called worse, or not worse, wrongly and rightly, where equal runs differ.

`python tests/unit/comparison_simulation.py` prints the table of docs/statistics.md.
"""

import numpy as np
from replication_lab.model.comparing.run_ratio import ratio_of_runs
from replication_lab.model.core.statistics import interval_between_at_equal

LEVEL, MARGIN = 0.95, 0.1
ROUNDS, NOISE = 8, 0.05
# Within a run the CPUs' speed varies, and the loop that shows it is read with an error.
SPEED, LOOP_ERROR = 0.05, 0.02
EFFECTS = (0.0, 0.03, 0.06, 0.1)
SIDES = ((1, 1), (3, 1), (5, 1), (10, 1), (5, 5), (10, 10))
PAIRS = 1000


def outcomes(
    sides: tuple[int, int],
    effect: float,
    ratio: float,
    *,
    slower: float = 1.0,
    pairs: int = PAIRS,
    widened: bool = True,
) -> tuple[float, float]:
    """Return the shares of pairs of sides that are called worse and not worse, if the rates have this true ratio.

    A side's runs each have an effect with this standard deviation, and the second side's CPUs are `slower` times as
    slow. `widened` is False for the interval of the rounds alone, which knows nothing of runs.
    """
    dice = np.random.default_rng(11)
    worse = fine = 0
    for _ in range(pairs):
        old, new = (
            [_run(dice, effect, level, times) for _ in range(many)]
            for many, level, times in zip(sides, (0.0, np.log(ratio)), (0.0, np.log(slower)), strict=True)
        )
        values, loops = ([[run[part] for run in side] for side in (old, new)] for part in (0, 1))
        if widened:
            found = ratio_of_runs(values[0], values[1], LEVEL, (loops[0], loops[1])).interval
        else:
            found = interval_between_at_equal(values[0][0], values[1][0], (loops[0][0], loops[1][0]), LEVEL)
        worse += found.high < 1 - MARGIN
        fine += found.low >= 1 - MARGIN
    return worse / pairs, fine / pairs


def _run(dice, effect: float, level: float, slower: float) -> tuple[list[float], list[float]]:
    """Return the rates of a run's rounds and the times of the loop beside them, of a load that only computes."""
    speed = slower + dice.normal(0, SPEED, ROUNDS)
    rates = level + dice.normal(0, effect) - speed + dice.normal(0, NOISE, ROUNDS)
    return np.exp(rates).tolist(), np.exp(speed + dice.normal(0, LOOP_ERROR, ROUNDS)).tolist()


def table() -> str:
    """Return the rows of the table: shares in per cent, by how much equal runs differ and the runs on each side."""
    return "\n".join(_row(effect, sides) for effect in EFFECTS for sides in SIDES)


def _row(effect: float, sides: tuple[int, int]) -> str:
    unchanged, slow_cpus, at_margin = (
        outcomes(sides, effect, ratio, slower=slower) for ratio, slower in ((1, 1.0), (1, 1.35), (0.9, 1.0))
    )
    slower = [outcomes(sides, effect, ratio)[0] for ratio in (0.8, 0.7, 0.5)]
    shares = [*unchanged, slow_cpus[0], *at_margin, *slower]
    told = " | ".join(f"{100 * share:.3g}" for share in shares)
    return f"| {100 * effect:.0f} % | {sides[0]} / {sides[1]} | {told} |"


def of_rounds_alone() -> str:
    """Return the same of one run against one, if nothing is added for the runs."""
    shares = [outcomes((1, 1), 0.06, 1, slower=slower, widened=False)[0] for slower in (1.0, 1.35)]
    return " and ".join(f"{100 * share:.1f} %" for share in shares)


if __name__ == "__main__":
    print(table(), of_rounds_alone(), sep="\n")
