"""A figure of named values, each with its interval and what was published, as an SVG file that stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.report import svg
from replication_lab.report.svg import Scale, around

from tests import picture

WIDTH, LEFT, RIGHT = 760, 230, 170
CAPTION, ROW, FOOT = 28, 24, 30
MADE = svg.elements()


@dataclass(frozen=True)
class Dot:
    """A row: its name, the value, the interval around it if there is one, and the published value."""

    name: str
    value: float
    ends: tuple[float, float] | None = None
    published: float | None = None


@dataclass(frozen=True)
class Panel:
    """Rows on one axis that begins at zero; `told` is the caption, with the unit."""

    told: str
    dots: Sequence[Dot]

    @property
    def height(self) -> float:
        return CAPTION + ROW * len(self.dots) + FOOT


def drawn(told: str, panels: Sequence[Panel]) -> str:
    """Return the panels below each other."""
    parts, y = [], 0.0
    for panel in panels:
        parts += _panel(panel, y)
        y += panel.height
    return picture.framed(WIDTH, y, told, parts, **{"class": "chart"})


def _panel(panel: Panel, y: float) -> list[str]:
    values = [each for dot in panel.dots for each in (dot.value, *(dot.ends or ()), dot.published or 0)]
    on, top = Scale(*around(values, log=False), LEFT, WIDTH - RIGHT), y + CAPTION
    bottom = top + ROW * len(panel.dots)
    parts = [MADE.text(panel.told, 12, y + 18, "caption")]
    for tick in on.ticks():
        parts += [
            MADE.line(on.at(tick), top, on.at(tick), bottom, "grid"),
            MADE.tick_label(svg.label(tick), on.at(tick), bottom + 14, WIDTH),
        ]
    for number, dot in enumerate(panel.dots):
        parts += _row(dot, on, top + ROW * (number + 0.5))
    return parts


def _row(dot: Dot, on: Scale, y: float) -> list[str]:
    parts = [MADE.text(dot.name, LEFT - 10, y + 4, anchor="end")]
    if dot.ends:
        low, high = map(on.at, dot.ends)
        parts += [MADE.line(low, y, high, y, "s1", 2)]
        parts += [MADE.line(end, y - 4, end, y + 4, "s1", 2) for end in (low, high)]
    parts.append(MADE.marker(0, on.at(dot.value), y, 4.5, "dot s1"))
    if dot.published is not None:
        parts.append(MADE.marker(2, on.at(dot.published), y, 4.5, "published"))
    said = f"{dot.value:.4g}" + ("" if dot.published is None else f" (published {dot.published:.4g})")
    parts.append(MADE.text(said, WIDTH - RIGHT + 8, y + 4))
    return parts
