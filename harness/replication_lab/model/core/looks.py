"""The risk of each look of a sequential run, chosen so that all looks together have no more than the accepted risk.

The paths of Student's t under normal noise depend on neither mean nor spread, so one set of simulated paths is valid
for every claim. docs/statistics.md compares this method with others.
"""

import math
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes long to import
    import numpy as np
    from numpy.typing import NDArray

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
