"""Percentiles of latencies: exact ones, since a record holds every latency of every load."""

from collections.abc import Iterable, Sequence

from replication_lab.model.measurement import Measurement

# With fewer values the 99.9th percentile would be almost the same as the maximum.
FEWEST_FOR_P999 = 1000
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def _quantile(latencies: Sequence[float], share: float) -> float:
    import numpy as np  # only here: commands that judge nothing need not wait for it

    return round(float(np.quantile(latencies, share)), 3)


def p999(latencies: Sequence[float]) -> float | None:
    """Return the 99.9th percentile; None where there are too few latencies for one."""
    return _quantile(latencies, 0.999) if len(latencies) >= FEWEST_FOR_P999 else None


def pooled(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return percentiles and the maximum of the latencies of several measurements together."""
    every = [ms for each in measurements for ms in each.samples.get("latency_ms", [])]
    if not every:
        return {}
    usual = {name: _quantile(every, share) for name, share in SHARES.items()}
    rare = p999(every)
    return {**usual, **({} if rare is None else {"p99.9_ms": rare}), "max_ms": max(every)}
