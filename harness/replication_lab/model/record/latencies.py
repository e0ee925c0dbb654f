"""Percentiles of latencies: exact ones, since a record holds every latency of every load."""

from collections.abc import Iterable, Sequence
from typing import Any

from replication_lab.model.drill.timeline import quantile
from replication_lab.model.record.measurement import Measurement

# With fewer values the 99.9th percentile would be almost the same as the maximum.
FEWEST_FOR_P999 = 1000
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


class Ordered(Sequence[float]):
    """Values of several parts in order of size. Each distinct one is held once: a long run has millions of them."""

    def __init__(self, parts: Iterable[Sequence[float]]) -> None:
        import numpy as np  # only here: commands that judge nothing need not wait for it

        self._values, many = np.empty(0), np.empty(0)
        for part in parts:
            self._values, places = np.unique(np.concatenate([self._values, part]), return_inverse=True)
            many = np.bincount(places, np.concatenate([many, np.ones(len(part))])).astype(float)
        self._ends = np.cumsum(many)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return float(self._values[self._ends.searchsorted(index, side="right")])


def p999(latencies: Sequence[float]) -> float | None:
    """Return the 99.9th percentile; None where there are too few latencies for one."""
    return _p999(Ordered([latencies]))


def _p999(ordered: Ordered) -> float | None:
    return quantile(ordered, 0.999) if len(ordered) >= FEWEST_FOR_P999 else None


def pooled(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return the minimum, percentiles and the maximum of the latencies of several measurements together, in ms."""
    every = Ordered(each.samples.get("latency_ms", []) for each in measurements)
    if not every:
        return {}
    usual = {name: quantile(every, share) for name, share in SHARES.items()}
    rare = _p999(every)
    return {
        "min_ms": every[0],
        **usual,
        **({} if rare is None else {"p99.9_ms": rare}),
        "max_ms": every[len(every) - 1],
    }
