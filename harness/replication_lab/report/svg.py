"""Pictures as SVG (svg.j2), and the scales from figures to places. The same figures give the same bytes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from replication_lab.report import templates

# The figures between one power of ten and the next that an axis can have, the finest first.
SERIES = (
    (1, 1.05, *(1 + number / 10 for number in range(1, 90))),
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, *range(2, 10)),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 5),
    (1, 2, 5),
    (1, 3),
    (1,),
)
# From these on an axis has figures with a letter in place of zeros.
LONG, MILLION = 10_000, 1_000_000
STEPS = (1, 2, 2.5, 5, 10)


@cache
def elements() -> Any:
    """Return the macros of svg.j2 as functions: elements, and the pictures that are made of them."""
    found = templates.environment(autoescape=True)
    found.filters["place"] = place
    found.globals["label"] = label
    return found.get_template("svg.j2").module


def place(value: float) -> str:
    """Return a coordinate with one decimal: a tenth of a pixel is not seen."""
    return f"{value:.1f}".removesuffix(".0")


def path(places: Iterable[tuple[float, float]]) -> str:
    """Return a line through places, as the data of a path."""
    return "M" + "L".join(f"{place(x)} {place(y)}" for x, y in places)


@dataclass(frozen=True)
class Scale:
    """A scale from figures `low` to `high` onto places `start` to `end`; what lies outside is put at the nearer end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log and value <= 0:
            return self.start
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> list[float]:
        """Return round figures within the scale, at most about `most`."""
        return self._log_ticks(most) if self.log else self._linear_ticks(most)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value

    def _linear_ticks(self, most: int) -> list[float]:
        span = (self.high - self.low) or 1.0
        power = 10 ** math.floor(math.log10(span / most))
        step = next(each * power for each in STEPS if each * power >= span / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{number * step:.12g}") for number in range(first, last + 1)]

    def _log_ticks(self, most: int) -> list[float]:
        """Return the finest of some series of round figures that has room; of powers of ten every second, third, …."""
        powers = range(math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for series in SERIES:
            every = [float(f"{each * 10.0**power:.12g}") for power in powers for each in series]
            found = [value for value in every if self.holds(value)]
            if len(found) <= most:
                return found
        return found[:: -(-len(found) // most)]


def around(values: Iterable[float], log: bool, room: float = 0.05) -> tuple[float, float]:
    """Return the ends of a scale that holds these values, with room beside them; of a linear one from zero on."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not known:
        return (0.1, 10.0) if log else (0.0, 1.0)
    low, high = min(known), max(known)
    if not log:
        return min(0.0, low), high + room * (high - min(0.0, low)) or 1.0
    wide = max((high / low) ** room, 1.02)
    return low / wide, high * wide


def label(value: float) -> str:
    """Return a figure for an axis: 0.05, 1, 1500, 20k, 3M."""
    if abs(value) >= MILLION:
        return f"{value / MILLION:g}M"
    return f"{value / 1000:g}k" if abs(value) >= LONG else f"{value:g}"
