"""Runs over time: the figures of many runs as series, and where their level changed."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replication_lab.model.change_points import change_points
from replication_lab.model.digest import Digest

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


@dataclass(frozen=True)
class Point:
    """A run's value of a figure: the geometric mean of its rounds, and the server's version."""

    run: str
    started: str
    version: str
    value: float
    rounds: int


@dataclass(frozen=True)
class Change:
    """A new level: the index of its first run, and its mean divided by that of the level before."""

    at: int
    ratio: float


@dataclass(frozen=True)
class Series:
    """A figure over time: the ratio of a claim, or the throughput of a case; the oldest run first."""

    place: Place
    of: str
    points: list[Point]

    @property
    def changes(self) -> list[Change]:
        """Return where the level changed by at least LEAST_CHANGE, for a series of at least FEWEST_RUNS."""
        if len(self.points) < FEWEST_RUNS:
            return []
        logs = [math.log(point.value) for point in self.points]
        ends = [0, *change_points(logs), len(logs)]
        levels = [math.fsum(logs[a:b]) / (b - a) for a, b in itertools.pairwise(ends)]
        found = [Change(at, math.exp(levels[n + 1] - levels[n])) for n, at in enumerate(ends[1:-1])]
        return [change for change in found if abs(math.log(change.ratio)) >= -math.log(1 - LEAST_CHANGE)]


def history(digests: Iterable[Digest]) -> list[Series]:
    """Return the series of all claims' ratios and all cases' throughputs, each over the runs that can be compared."""
    series: dict[tuple[Place, str], list[Point]] = {}
    for digest in sorted(digests, key=lambda each: each.started):
        for place, of, point in _points(digest):
            series.setdefault((place, of), []).append(point)
    return [Series(place, of, points) for (place, of), points in series.items()]


def _points(digest: Digest) -> Iterator[tuple[Place, str, Point]]:
    for name, engine in digest.engines.items():
        place = Place(
            digest.experiment,
            digest.question,
            digest.preset,
            tuple(sorted(digest.conditions.items())),
            name,
            tuple(digest.machine.items()),
        )
        named = {claim: found.ratios for claim, found in engine.claims.items()}
        named |= {
            f"throughput:{case}": found.figures.get("throughput", [])
            for case, found in engine.cases.items()
            if not found.doubts
        }
        for of, values in named.items():
            if values:
                value = math.exp(math.fsum(map(math.log, values)) / len(values))
                yield place, of, Point(digest.run, digest.started, engine.version, value, len(values))
