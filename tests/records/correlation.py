"""How much neighbouring rounds of the kept records resemble each other: the pooled correlation of their log ratios.

`python -m tests.records.correlation` prints what docs/statistics.md says of it. Each series has few rounds, so the
correlation of one says nothing, and is biased: that of n independent values is -1/n on average. All series are pooled,
and the correlation is the one whose simulated series give the same pooled value.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from replication_lab import experiments, runs
from replication_lab.model.experiment.quantities import Ratio
from replication_lab.model.experiment.relations import Bounds

from tests.records import golden
from tests.unit.simulation import autoregressive

FEWEST = 4
CORRELATIONS = np.linspace(-0.9, 0.9, 37)
SIMULATED, RESAMPLES, SEED = 20_000, 10_000, 5


@dataclass(frozen=True)
class Pooled:
    """The correlation of neighbouring rounds with its 95 % interval, and what it was computed from."""

    correlation: float
    low: float
    high: float
    records: int
    series: int
    rounds: int

    def __str__(self) -> str:
        interval = f"{self.correlation:.2f} [{self.low:.2f}–{self.high:.2f}]"
        return f"{interval} in {self.series} series of {self.rounds} rounds from {self.records} records"


def log_ratios() -> dict[str, list[np.ndarray]]:
    """Return the logarithms of the ratios of all claims by round, by record: each series once."""
    found = {}
    for name in golden.names():
        if isinstance(golden.expected(name), dict) and (series := list(_series_of(name))):
            found[name] = series
    return found


def _series_of(name: str) -> Iterator[np.ndarray]:
    with TemporaryDirectory() as folder:
        _, record = runs.read(golden.unpack(name, Path(folder)))
        experiment, seen = experiments.of(record), set()
        for engine in record.engines:
            for claim in experiment.claims:
                relation = claim.relation
                if not isinstance(relation, Bounds) or not isinstance(relation.quantity, Ratio):
                    continue
                by_round = relation.quantity.series(record, engine)
                values = [by_round[number] for number in sorted(by_round)]
                if len(values) < FEWEST or not all(math.isfinite(each) and each > 0 for each in values):
                    continue
                logs = np.log(values)
                key = tuple(np.round(np.abs(logs - logs.mean()), 9))
                if np.ptp(logs) > 0 and key not in seen:
                    seen.add(key)
                    yield logs


def neighbours(series: np.ndarray) -> np.ndarray:
    """Return the correlation of neighbouring values along the last axis."""
    above = series - series.mean(axis=-1, keepdims=True)
    return (above[..., :-1] * above[..., 1:]).sum(axis=-1) / (above**2).sum(axis=-1)


def pooled(found: dict[str, list[np.ndarray]]) -> Pooled:
    """Return the pooled correlation. The interval resamples whole records, since series of one record share cases."""
    sums = np.array([_sums(series) for series in found.values()])
    lengths = [len(each) for series in found.values() for each in series]
    expected = np.array([_expected(lengths, float(each)) for each in CORRELATIONS])

    def correlation(parts: np.ndarray) -> np.ndarray:
        return np.interp(parts[..., 0] / parts[..., 1], expected, CORRELATIONS)

    dice = np.random.default_rng(SEED)
    resampled = sums[dice.integers(0, len(sums), (RESAMPLES, len(sums)))].sum(axis=1)
    low, high = np.quantile(correlation(resampled), [0.025, 0.975])
    middle = float(correlation(sums.sum(axis=0)))
    return Pooled(middle, float(low), float(high), len(sums), len(lengths), sum(lengths))


def _sums(series: list[np.ndarray]) -> tuple[float, float]:
    return sum((len(each) - 1) * float(neighbours(each)) for each in series), sum(len(each) - 1.0 for each in series)


def _expected(lengths: list[int], correlation: float) -> float:
    weights = [length - 1 for length in lengths]
    return float(np.average([_mean_of(length, correlation) for length in lengths], weights=weights))


@cache
def _mean_of(length: int, correlation: float) -> float:
    """Return the mean correlation of neighbours in simulated series of this length."""
    return float(neighbours(autoregressive(np.random.default_rng(SEED), (SIMULATED, length), correlation)).mean())


if __name__ == "__main__":
    every = log_ratios()
    for name, series in every.items():
        total, weight = _sums(series)
        bias = sum((len(each) - 1) / len(each) for each in series) / weight
        print(
            f"{name}: {len(series)} series, lengths {sorted(map(len, series))}, {total / weight + bias:+.2f} above -1/n"
        )
    print(pooled(every))
