"""A figure of named values, each with its interval and what was published, as an SVG file that stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.report import svg
from replication_lab.report.svg import Scale, around

from tests import picture

WIDTH, LEFT, RIGHT = 760, 230, 170
CAPTION, ROW, FOOT = 28, 24, 30


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
    back = svg.rect(0, 0, WIDTH, y, class_="back")
    return svg.picture(WIDTH, y, told, svg.tag("style", picture.style()), back, *parts, class_="chart") + "\n"


def _panel(panel: Panel, y: float) -> list[str]:
    values = [each for dot in panel.dots for each in (dot.value, *(dot.ends or ()), dot.published or 0)]
    on, top = Scale(*around(values, log=False), LEFT, WIDTH - RIGHT), y + CAPTION
    bottom = top + ROW * len(panel.dots)
    parts = [svg.text(panel.told, 12, y + 18, class_="caption")]
    for tick in on.ticks():
        parts += [
            svg.line(on.at(tick), top, on.at(tick), bottom, class_="grid"),
            svg.tick_label(svg.label(tick), on.at(tick), bottom + 14, WIDTH),
        ]
    for number, dot in enumerate(panel.dots):
        parts += _row(dot, on, top + ROW * (number + 0.5))
    return parts


def _row(dot: Dot, on: Scale, y: float) -> list[str]:
    parts = [svg.text(dot.name, LEFT - 10, y + 4, text_anchor="end")]
    if dot.ends:
        low, high = map(on.at, dot.ends)
        parts += [svg.line(low, y, high, y, class_="s1", stroke_width=2)]
        parts += [svg.line(end, y - 4, end, y + 4, class_="s1", stroke_width=2) for end in (low, high)]
    parts.append(svg.marker(0, on.at(dot.value), y, 4.5, class_="dot s1"))
    if dot.published is not None:
        parts.append(svg.marker(2, on.at(dot.published), y, 4.5, class_="published"))
    said = f"{dot.value:.4g}" + ("" if dot.published is None else f" (published {dot.published:.4g})")
    parts.append(svg.text(said, WIDTH - RIGHT + 8, y + 4))
    return parts
