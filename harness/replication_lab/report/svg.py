"""SVG as text: elements, and scales from figures to places. Small pure functions: the same bytes for the same figures.

Colours are classes, whose rules are in assets/chart.css, so that one drawing fits dark, light and print.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

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


def tag(name: str, *content: str, **attributes: object) -> str:
    """Return an element. `class_` stands for class, `_` within a name for `-`; content is markup already."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items())
    inner = "".join(content)
    return f"<{name}{given}>{inner}</{name}>" if inner else f"<{name}{given}/>"


def _attribute(value: object) -> str:
    return place(value) if isinstance(value, float) else escape(str(value))


def place(value: float) -> str:
    """Return a coordinate with one decimal: a tenth of a pixel is not seen."""
    return f"{value:.1f}".removesuffix(".0")


def text(content: object, x: float, y: float, **attributes: object) -> str:
    return tag("text", escape(str(content)), x=float(x), y=float(y), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    return tag("rect", x=float(x), y=float(y), width=float(max(width, 0)), height=float(height), **attributes)


def picture(width: float, height: float, told: str, *content: str, about: str = "", **attributes: object) -> str:
    """Return an SVG of this size with a title, and a longer description where there is one."""
    words = tag("title", escape(str(told))) + (tag("desc", escape(str(about))) if about else "")
    box = f"0 0 {place(width)} {place(height)}"
    return tag("svg", words, *content, viewBox=box, role="img", xmlns="http://www.w3.org/2000/svg", **attributes)


def marker(shape: int, x: float, y: float, size: float = 4, **attributes: object) -> str:
    """Return a mark: circle, square, diamond, triangle, and the same hollow, so that colour is not the only key."""
    hollow = {"data-hollow": "1"} if shape >= len(_SHAPES) else {}
    return _SHAPES[shape % len(_SHAPES)](x, y, size, **attributes, **hollow)


def _circle(x: float, y: float, size: float, **attributes: object) -> str:
    return tag("circle", cx=float(x), cy=float(y), r=float(size), **attributes)


def _square(x: float, y: float, size: float, **attributes: object) -> str:
    return rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8, **attributes)


def _diamond(x: float, y: float, size: float, **attributes: object) -> str:
    far = size * 1.35
    return _polygon(((x, y - far), (x + far, y), (x, y + far), (x - far, y)), **attributes)


def _triangle(x: float, y: float, size: float, **attributes: object) -> str:
    return _polygon(((x, y - size * 1.2), (x + size * 1.2, y + size), (x - size * 1.2, y + size)), **attributes)


_SHAPES = (_circle, _square, _diamond, _triangle)


def _polygon(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    return tag("polygon", points=" ".join(f"{place(x)},{place(y)}" for x, y in points), **attributes)


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


def tick_label(said: str, x: float, y: float, wide: float) -> str:
    """Return the label of a place on an axis, within a picture of this width."""
    half = 3.5 * len(said)
    return text(said, min(max(x, half), wide - half), y, class_="tick", text_anchor="middle")


def label(value: float) -> str:
    """Return a figure for an axis: 0.05, 1, 1500, 20k, 3M."""
    if abs(value) >= MILLION:
        return f"{value / MILLION:g}M"
    return f"{value / 1000:g}k" if abs(value) >= LONG else f"{value:g}"
