"""Where the level of a series changes: E-divisive, with a permutation test for each split.

Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data", 2014, with the
distance |x - y|. A series is split where the energy distance of its two sides is largest, if less than the share RISK
of its permutations has a split as good. Then each side is examined in the same way.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes long to import
    import numpy as np
    from numpy.typing import NDArray

# The chance that a series without any change shows one. The permutation test keeps it whatever the noise.
RISK = 0.01
PERMUTATIONS = 499
SEED = 1
# A single run does not make a level.
FEWEST_ON_A_SIDE = 2


def change_points(values: Sequence[float]) -> list[int]:
    """Return the indices at which a new level begins, in order."""
    import numpy as np

    return _changes(np.asarray(values, float), 0)


def _changes(values: "NDArray[np.float64]", offset: int) -> list[int]:
    if len(values) < 2 * FEWEST_ON_A_SIDE:
        return []
    found, height = _best_split(values[None, :])
    permuted = _best_split(values[_permutations(len(values))])[1]
    if (1 + (permuted >= height[0] * (1 - 1e-9)).sum()) / (1 + PERMUTATIONS) > RISK:
        return []
    at = int(found[0])
    return [*_changes(values[:at], offset), offset + at, *_changes(values[at:], offset + at)]


@cache
def _permutations(length: int) -> "NDArray[np.int64]":
    import numpy as np

    dice = np.random.default_rng(SEED)
    return dice.permuted(np.tile(np.arange(length), (PERMUTATIONS, 1)), axis=1)


def _best_split(rows: "NDArray[np.float64]") -> tuple["NDArray[np.int64]", "NDArray[np.float64]"]:
    """Return for each row where its two sides differ most, and by how much."""
    import numpy as np

    length = rows.shape[1]
    splits = np.arange(FEWEST_ON_A_SIDE, length - FEWEST_ON_A_SIDE + 1)
    # sums[r, i, j] is the sum of all distances between the first i and the first j values of row r.
    sums = np.zeros((len(rows), length + 1, length + 1))
    sums[:, 1:, 1:] = np.abs(rows[:, :, None] - rows[:, None, :]).cumsum(axis=1).cumsum(axis=2)
    left, right = splits, length - splits
    within_left, to_all = sums[:, splits, splits], sums[:, splits, length]
    between = to_all - within_left
    within_right = sums[:, length, length, None] - 2 * to_all + within_left
    energy = 2 * between / (left * right)
    energy -= within_left / (left * (left - 1)) + within_right / (right * (right - 1))
    heights = energy * left * right / length
    best = heights.argmax(axis=1)
    return splits[best], heights[np.arange(len(rows)), best]
