"""Runs over time: the figures of many runs as series, and where their level changed."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import geometric_mean
from typing import TYPE_CHECKING

from replication_lab.model.comparing.digest import Digest
from replication_lab.model.core.groups import grouped
from replication_lab.model.experiment.compared_figures import THROUGHPUT

if TYPE_CHECKING:  # it takes long to import
    import numpy as np
    from numpy.typing import NDArray

# A smaller relative change is not shown, even if it is significant.
LEAST_CHANGE = 0.03
# A shorter series cannot show a change: it has too few different permutations.
FEWEST_RUNS = 8


@dataclass(frozen=True)
class Place:
    """The properties that all runs of a series share, without which they cannot be compared over time."""

    experiment: str
    question: str
    preset: str
    conditions: tuple[tuple[str, str], ...]
    engine: str
    machine: tuple[tuple[str, object], ...]
    against: str = ""


@dataclass(frozen=True)
class Point:
    """A run's value of a figure: the geometric mean of its rounds, and the server's version.

    `loop_us` is the mean time of the loop that shows the CPUs' speed. It is None for the ratio of a claim, and where
    the loop was not measured.
    """

    run: str
    started: str
    version: str
    value: float
    rounds: int
    loop_us: float | None = None


@dataclass(frozen=True)
class LevelChange:
    """A new level: the index of its first run, and its mean divided by that of the level before.

    `cpu_time` is the loop's mean time divided by that of the level before: above 1 the CPUs were slower. None where it
    is not known for every run.
    """

    at: int
    ratio: float
    cpu_time: float | None = None

    @property
    def is_of_the_cpus(self) -> bool:
        """Whether another speed of the CPUs explains at least half of the change, on a logarithmic scale."""
        if self.cpu_time is None:
            return False
        expected, found = -math.log(self.cpu_time), math.log(self.ratio)
        return expected * found > 0 and abs(expected) >= abs(found) / 2


@dataclass(frozen=True)
class Series:
    """A figure over time: the ratio of a claim, or a compared figure of a case; the oldest run first."""

    place: Place
    of: str
    points: list[Point]

    @property
    def changes(self) -> list[LevelChange]:
        """Return where the level changed by at least LEAST_CHANGE, for a series of at least FEWEST_RUNS."""
        if len(self.points) < FEWEST_RUNS:
            return []
        logs = [math.log(point.value) for point in self.points]
        ends = [0, *change_points(logs), len(logs)]
        sides = [(self.points[a:b], self.points[b:c]) for a, b, c in zip(ends, ends[1:], ends[2:], strict=False)]
        found = [LevelChange(at, *_changed(*side)) for at, side in zip(ends[1:-1], sides, strict=True)]
        return [change for change in found if abs(math.log(change.ratio)) >= -math.log(1 - LEAST_CHANGE)]


def _changed(before: list[Point], after: list[Point]) -> tuple[float, float | None]:
    """Return the second level divided by the first: of the value, and of the loop's time if all runs have it."""
    loops = [[point.loop_us for point in level if point.loop_us] for level in (before, after)]
    known = [len(found) for found in loops] == [len(before), len(after)]
    return (
        geometric_mean(point.value for point in after) / geometric_mean(point.value for point in before),
        geometric_mean(loops[1]) / geometric_mean(loops[0]) if known else None,
    )


def history(digests: Iterable[Digest]) -> list[Series]:
    """Return the series of all claims' ratios and all cases' compared figures, each over the comparable runs."""
    in_order = sorted(digests, key=lambda each: each.started)
    series = grouped(each for digest in in_order for each in _points(digest))
    return [Series(place, of, points) for (place, of), points in series.items()]


def _points(digest: Digest) -> Iterator[tuple[tuple[Place, str], Point]]:
    for name, engine in digest.engines.items():
        conditions, machine = tuple(sorted(digest.conditions.items())), tuple(digest.machine.items())
        place = Place(
            digest.experiment, digest.question, digest.preset, conditions, name, machine, against=digest.against
        )
        named = {claim: (found.ratios, list[float]()) for claim, found in engine.claims.items()}
        named |= {
            f"{figure}:{case}": (found.figures.get(figure, []), found.loop_us)
            for case, found in engine.cases.items()
            for figure in found.compared or (THROUGHPUT,)
            if not found.doubts
        }
        for of, (values, loops) in named.items():
            if values:
                loop_us, value = geometric_mean(loops) if loops else None, geometric_mean(values)
                yield (place, of), Point(digest.run, digest.started, engine.version, value, len(values), loop_us)


# The chance that a series without any change shows one. The permutation test keeps it whatever the noise.
RISK = 0.01
PERMUTATIONS = 499
SEED = 1
# A single run does not make a level.
FEWEST_ON_A_SIDE = 2


def change_points(values: Sequence[float], offset: int = 0) -> list[int]:
    """Return the indices at which a new level begins, in order; that of the first value is `offset`."""
    import numpy as np

    if len(values) < 2 * FEWEST_ON_A_SIDE:
        return []
    series = np.asarray(values, float)
    found, height = _best_split(series[None, :])
    permuted = _best_split(series[_permutations(len(series))])[1]
    if (1 + (permuted >= height[0] * (1 - 1e-9)).sum()) / (1 + PERMUTATIONS) > RISK:
        return []
    at = int(found[0])
    return [*change_points(values[:at], offset), offset + at, *change_points(values[at:], offset + at)]


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
