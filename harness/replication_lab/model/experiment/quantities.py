"""Quantities: figures of a record by round, and values computed from them.

A quantity names a figure of a case and yields it by round; compared with a number it is a relation:
`throughput(far) / throughput(near) >= 0.9`. The text of a question's claim says the same (claim.py).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import (
    Interval,
    NoInterval,
    highest_share,
    interval_of_mean,
    interval_of_ratio,
)
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.relations import Bounds, KnownWithin, NoneSeen, SomeSeen
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record

LAG = "lag_s"


class Quantity(ABC):
    """A value that is computed from a record, by round."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Return its name in a claim's relation."""

    @property
    @abstractmethod
    def unit(self) -> str: ...

    @property
    @abstractmethod
    def figures(self) -> tuple["Figure", ...]:
        """Return the recorded figures that it reads."""

    @abstractmethod
    def series(self, record: Record, engine: str) -> dict[int, float]:
        """Return the values of quiet rounds by round."""

    def __truediv__(self, other: "Quantity") -> "Ratio":
        return Ratio(self, other)

    def __ge__(self, low: float) -> "Bounds":
        return Bounds(self, low=_bound(low))

    def __le__(self, high: float) -> "Bounds":
        return Bounds(self, high=_bound(high))

    def between(self, low: float, high: float) -> "Bounds":
        return Bounds(self, low, high)

    def known(self, *, within: float) -> "KnownWithin":
        """Return the relation of an estimate: it HOLDS when the interval's ends are within this share of it."""
        return KnownWithin(self, margin=within)

    def typical(self, record: Record, engine: str) -> float | None:
        """Return the median over the rounds; None when a round's figure is missing or could not be computed."""
        values = list(self.series(record, engine).values())
        return median(values) if values and all(map(math.isfinite, values)) else None

    def interval(self, record: Record, engine: str, level: float) -> Interval:
        values = self.series(record, engine)
        return interval_of_mean(list(values.values()), level, record.sites_of(values))


@dataclass(frozen=True)
class Figure(Quantity):
    """A recorded figure of a case, on the judged engine or, if set, on `engine`."""

    case: str
    name: str
    engine: str | None = None

    @property
    def label(self) -> str:
        named = self.engine is None or self.engine in self.case
        return f"{self.name}({self.case}{'' if named else f' of {self.engine}'})"

    @property
    def unit(self) -> str:
        return unit_of(self.name)

    @property
    def figures(self) -> tuple["Figure", ...]:
        return (self,)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        return record.series(self.engine or engine, self.case, self.name)


@dataclass(frozen=True)
class Loops(Figure):
    """A recorded time of a load that only computes, divided by that of the loop beside it (`loop_us`).

    On a slower CPU the same work takes longer, and the loop as well. That removes most of the effect of the CPUs' speed
    (docs/statistics.md). A round without the loop is left out. If no round has it, as where the engine runs on another
    machine, it is the recorded time in ms.
    """

    @property
    def label(self) -> str:
        return super().label.replace("_ms(", "_loops(")

    @property
    def unit(self) -> str:
        return ""

    def series(self, record: Record, engine: str) -> dict[int, float]:
        recorded, taken = super().series(record, engine), record.quiet(self.engine or engine, self.case)
        if not any(each.noise.loop_us for each in record.measurements if self.name in each.figures):
            return recorded
        return {n: recorded[n] * 1000 / loop for n in recorded if (loop := taken[n].noise.loop_us)}


@dataclass(frozen=True)
class ErrorShare(Figure):
    """The share of attempts that failed. None in any round leaves room for as many as chance could have hidden."""

    def interval(self, record: Record, engine: str, level: float) -> Interval:
        shares = list(self.series(record, engine).values())
        if any(shares) or not shares:
            return super().interval(record, engine, level)
        made = Figure(self.case, "attempts", self.engine).series(record, engine)
        return Interval(0.0, 0.0, highest_share(round(math.fsum(made.values())), level), len(shares), level)


@dataclass(frozen=True)
class PerRoundTrip(Quantity):
    """The law clients/RTT: commits a second of `clients` that each wait for one measured round trip (1/s).

    `trip` is the figure for the round trip: the median, or the shortest (rtt_min_ms), which no commit can undercut.
    Half of all round trips are shorter than the median.
    """

    case: str
    clients: int = 1
    trip: str = "rtt_p50_ms"

    unit = "1/s"

    @property
    def label(self) -> str:
        return f"({self.clients}/{self.trip}({self.case}))"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (Figure(self.case, self.trip),)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        trips = self.figures[0].series(record, engine)
        return {n: self.clients * 1000 / ms if ms else math.nan for n, ms in trips.items()}


@dataclass(frozen=True)
class Ratio(Quantity):
    """One quantity divided by another, paired by round."""

    numerator: Quantity
    denominator: Quantity

    unit = ""

    @property
    def label(self) -> str:
        return f"{self.numerator.label} / {self.denominator.label}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return self.numerator.figures + self.denominator.figures

    def equals(self, within: float = 0.05) -> "Bounds":
        """Return the relation that the two are equal within this share."""
        return Bounds(self, 1 - within, 1 + within)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        return {n: over / under if under else math.nan for n, (over, under) in self._pairs(record, engine).items()}

    def interval(self, record: Record, engine: str, level: float) -> Interval:
        pairs = self._pairs(record, engine)
        return interval_of_ratio(list(pairs.values()), level, record.sites_of(pairs))

    def _pairs(self, record: Record, engine: str) -> dict[int, tuple[float, float]]:
        over, under = self.numerator.series(record, engine), self.denominator.series(record, engine)
        return {n: (over[n], under[n]) for n in over if n in under}


@dataclass(frozen=True)
class Sum(Quantity):
    """The sum of several figures of the same unit, paired by round."""

    parts: tuple[Figure, ...]

    @property
    def label(self) -> str:
        return f"({' + '.join(part.label for part in self.parts)})"

    @property
    def unit(self) -> str:
        return self.parts[0].unit

    @property
    def figures(self) -> tuple[Figure, ...]:
        return self.parts

    def series(self, record: Record, engine: str) -> dict[int, float]:
        each = [part.series(record, engine) for part in self.parts]
        return {n: math.fsum(series[n] for series in each) for n in each[0] if all(n in series for series in each)}


def _bound(given: object) -> float:
    if isinstance(given, int | float):
        return given
    raise LabError(
        "a claim compares a quantity with another quantity",
        "a quantity, or the ratio of two, and a number",
        "throughput(a) / throughput(b) >= 1",
    )


def _name(case: Case | str) -> str:
    return case.name if isinstance(case, Case) else case


def figure(case: Case | str, name: str) -> Figure:
    """Return any recorded figure of a case, such as that of a probe of your own."""
    return Figure(_name(case), name)


def errors(case: Case | str) -> ErrorShare:
    """Return the share of a case's attempts that failed."""
    return ErrorShare(_name(case), "errors")


def _quantity(called: str, name: str, about: str) -> Callable[[Case | str], Figure]:
    """Return the function of this name that returns a figure of a case."""

    def of(case: Case | str) -> Figure:
        return figure(case, name)

    of.__name__, of.__doc__ = called, f"Return {about} in a case."
    return of


throughput = _quantity("throughput", "throughput", "the commits a second")
p50 = _quantity("p50", "latency_p50_ms", "the median commit latency, ms,")
p95 = _quantity("p95", "latency_p95_ms", "the 95th percentile of commit latencies, ms,")
p99 = _quantity("p99", "latency_p99_ms", "the 99th percentile of commit latencies, ms,")
p999 = _quantity("p999", "latency_p999_ms", "the 99.9th percentile of commit latencies, ms,")
rtt = _quantity("rtt", "rtt_p50_ms", "the median measured round trip of the link, ms,")
lag = _quantity("lag", LAG, "how long replicas still applied after the load, s,")
# What a claim as text calls a quantity.
BY_NAME: dict[str, Callable[[str], Figure]] = {
    **{each.__name__: each for each in (throughput, p50, p95, p99, errors, lag)},
    "p99.9": p999,
}


def total(case: Case | str, name: str, quiet: bool = False) -> "Total":
    """Return a count over all rounds; with `quiet`, over those that were not noisy."""
    return Total(_name(case), name, quiet)


def per_round_trip(case: Case | str, clients: int = 1) -> PerRoundTrip:
    """Return the law clients/RTT, 1/s: what clients commit that wait for one measured round trip each."""
    return PerRoundTrip(_name(case), clients)


@dataclass(frozen=True)
class Total:
    """A count summed over all rounds. Noisy rounds count too: a lost row is lost, however busy the host was.

    With `quiet` noisy rounds are left out, for a count that depends on time, such as the replicas that caught up.
    """

    case: str
    name: str
    quiet: bool = False

    def is_zero(self, trials: str, at_least: int = 30) -> "NoneSeen":
        """Return the relation that it never happened in at least `at_least` trials; the figure `trials` counts them."""
        return NoneSeen(self, trials, at_least)

    def is_positive(self) -> "SomeSeen":
        """Return the relation that it happened at least once."""
        return SomeSeen(self)

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return list(record.quiet(engine, self.case).values()) if self.quiet else record.of(engine, self.case)

    def sum(self, record: Record, engine: str, name: str | None = None) -> tuple[int, int]:
        """Return (sum of the figure, number of measurements that took it); NoInterval if one failed to compute."""
        name = name or self.name
        taken = [m.figures[name] for m in self.counted(record, engine) if name in m.figures]
        counts = [count for count in taken if count is not None and math.isfinite(count)]
        if len(counts) < len(taken):
            raise NoInterval(f"{name}({self.case}) could not be computed in {len(taken) - len(counts)} rounds")
        return round(sum(counts)), len(counts)

    def example(self, record: Record, engine: str) -> str:
        """Return the first example of what was counted, to follow a number; empty if the load gave none."""
        found = (one.findings[self.name] for one in self.counted(record, engine) if self.name in one.findings)
        return next((f"; for example, {each}" for each in found), "")


def unit_of(name: str) -> str:
    """Return a figure's unit by its name: `…_ms` is in milliseconds, the lag in seconds, throughput in 1/s.

    All others are counts or shares.
    """
    if name.endswith("_ms"):
        return "ms"
    if name == LAG:
        return "s"
    return "1/s" if name == "throughput" else ""
