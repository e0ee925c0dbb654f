"""A chart of lines as data, and as SVG; the page's script draws the same data with a tooltip, zoom and a legend."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, TypeGuard

from replication_lab.report import svg
from replication_lab.report.svg import Scale

WIDTH, HEIGHT = 760, 240
# Of several charts one below the other, of which the first is the highest.
HIGH, LOW = 200, 170
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 26, 40
STRIP = 15
# The legend: the length of a key, the room of a letter, the height of a row.
KEY, LETTER, LEGEND = 26, 6.6, 18
ROWS_OF_LABELS = 3
SIZES = {
    **{"width": WIDTH, "left": LEFT, "right": RIGHT, "strip": STRIP},
    **{"key": KEY, "letter": LETTER, "legend": LEGEND},
}
# There are as many looks of lines in the theme.
LOOKS = 6
# The kind of a band whose label is shown only if the band is as wide.
CASE = "case"
# With fewer points each has a marker.
MARKED_POINTS = 40
# The percentiles of a chart of latencies: the label, and the field of the answers of an interval.
PERCENTILES = (("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"))
# Values that differ by more than this factor need a log scale.
DECADE = 10

Point = tuple[float, float | None]


@dataclass(frozen=True)
class Line:
    """A line through its points; `ends` are intervals, (low, high) by point; `look` is its colour, dash and marker.

    With `steps` it has a step for each point, if `bare` no markers, if `scattered` only markers. If it is `closed`, the
    last point is the end of the last step; else that is as long as the first one.
    """

    label: str
    points: Sequence[Point]
    look: int = 0
    steps: bool = False
    closed: bool = False
    ends: Sequence[tuple[float, float] | None] = ()
    bare: bool = False
    scattered: bool = False

    @property
    def class_(self) -> str:
        return f"s{self.look % LOOKS + 1}"


@dataclass(frozen=True)
class Band:
    """A span of the x axis behind the lines, such as the time of a fault."""

    begin: float
    end: float
    label: str
    kind: str = "fault"


# The begin and the end of a state, its words and its tone.
StateSpan = tuple[float, float, str, str]


@dataclass(frozen=True)
class Strip:
    """A row of states below the lines."""

    label: str
    spans: Sequence[StateSpan]


def merged(parts: Iterable[StateSpan]) -> list[StateSpan]:
    """Return spans in which equal states that follow each other are one."""
    runs = (list(run) for _, run in groupby(parts, lambda part: part[2:]))
    return [(run[0][0], run[-1][1], *run[0][2:]) for run in runs]


def is_wide(values: Iterable[float]) -> bool:
    """Return whether values differ so much that they need a log scale."""
    known = list(values)
    return bool(known) and max(known) / min(known) >= DECADE


@dataclass(frozen=True)
class Chart:
    """Lines over a common x axis. `name` is unique on the page, `told` the caption, `about` describes the content."""

    name: str
    told: str
    x: str
    y: str
    lines: Sequence[Line]
    about: str = ""
    log_x: bool = False
    log_y: bool = False
    bands: Sequence[Band] = ()
    strips: Sequence[Strip] = ()
    x_ticks: Sequence[float] = ()
    x_ends: tuple[float, float] | None = None
    group: str = ""
    height: int = HEIGHT
    named: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis:
    """What charts over the same time share; `name` begins the name of each on the page, `of` its caption."""

    name: str
    x: str
    ends: tuple[float, float]
    bands: Sequence[Band]
    group: str = ""
    of: str = ""

    def chart(self, name: str, told: str, y: str, lines: Sequence[Line], **parts: Any) -> Chart:
        others = {"height": LOW, "bands": self.bands, "group": self.group, **parts}
        return Chart(
            name=f"{self.name}-{name}",
            told=f"{self.of}{told}",
            x=self.x,
            x_ends=self.ends,
            y=y,
            lines=lines,
            **others,
        )

    def latency(self, told: str, line: Callable[[str, int, str], Line], about: str) -> Iterator[Chart]:
        """Yield the chart of the percentiles if there are any; `line` makes one of a label, a look and a field."""
        lines = [line(label, look, field) for look, (label, field) in enumerate(PERCENTILES)]
        if known := [ms for each in lines for _, ms in each.points if ms]:
            log = is_wide(known)
            yield self.chart("latency", told, f"ms{', log scale' if log else ''}", lines, about=about, log_y=log)


def values(chart: Chart) -> list[float]:
    found = [y for line in chart.lines for _, y in line.points if _is_known(y)]
    return found + [end for line in chart.lines for ends in line.ends if ends for end in ends]


def data(chart: Chart) -> dict[str, Any]:
    """Return what the page's script draws: rounded to what can be seen. A line without x has that of the first one."""
    places = [[_seen(x) for x, _ in line.points] for line in chart.lines]
    return {
        "x": chart.x,
        "y": chart.y,
        "logX": chart.log_x,
        "logY": chart.log_y,
        "group": chart.group,
        "height": chart.height,
        "ends": chart.x_ends,
        "ticks": list(chart.x_ticks),
        "bands": [[band.begin, band.end, band.label, band.kind] for band in chart.bands],
        "lines": [
            {
                "label": line.label,
                "look": line.look,
                "steps": line.steps,
                "dots": line.scattered,
                **({"x": places[number]} if number == 0 or places[number] != places[0] else {}),
                "y": [_seen(y) for _, y in line.points],
            }
            for number, line in enumerate(chart.lines)
        ],
    }


def _seen(value: float | None) -> float | None:
    return float(f"{value:.4g}") if _is_known(value) else None


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def drawn(chart: Chart) -> str:
    """Return the chart as SVG."""
    legend = list(_legend(chart))
    top = TOP + LEGEND * max((row for _, row, _ in legend), default=0)
    bottom = chart.height - BOTTOM - STRIP * len(chart.strips)
    places = [x for line in chart.lines for x, _ in line.points]
    left, right = chart.x_ends or svg.around(places, chart.log_x, 0.03)
    low, high = svg.around(values(chart), chart.log_y)
    across = Scale(left, right, LEFT, WIDTH - RIGHT, chart.log_x)
    up = Scale(low, high, bottom, top, chart.log_y)
    return str(
        svg.elements().chart(
            chart,
            bands=_bands(chart, across, top),
            lines=[_line(line, across, up) for line in chart.lines],
            legend=legend,
            across=across,
            up=up,
            top=top,
            bottom=bottom,
            foot=bottom + STRIP * len(chart.strips),
            size=SIZES,
        )
    )


def _bands(chart: Chart, across: Scale, top: float) -> Iterator[tuple[Band, float, float, float | None, float]]:
    """Yield each band with its place and width, and the place of its label; None for a label without room."""
    free = [-math.inf] * ROWS_OF_LABELS
    for band in chart.bands:
        begin, end = across.at(band.begin), across.at(band.end)
        wide = LETTER * len(band.label)
        x = min(begin + 3, WIDTH - RIGHT - wide)
        # A label without room is left out: the title and the table of phases have it.
        row = next((number for number, taken in enumerate(free) if x >= taken), None)
        if row is None or (band.kind.startswith(CASE) and wide > end - begin):
            yield band, begin, max(end - begin, 1), None, 0
        else:
            free[row] = x + wide
            yield band, begin, max(end - begin, 1), x, top + 11 + 13 * row


class DrawnLine(NamedTuple):
    """A line in a picture: the paths of its parts without a gap, its intervals as (x, low, high), and its marks."""

    of: Line
    paths: list[str]
    ends: list[tuple[float, float, float]]
    marks: list[tuple[float, float]]


def _line(line: Line, across: Scale, up: Scale) -> DrawnLine:
    runs = [
        [(across.at(x), up.at(y)) for x, y in run if _is_known(y)]
        for known, run in groupby(line.points, key=lambda point: _is_known(point[1]))
        if known
    ]
    ends = [
        (across.at(x), up.at(both[0]), up.at(both[1]))
        for (x, _), both in zip(line.points, line.ends, strict=False)
        if both
    ]
    has_marks = line.scattered or (len(line.points) <= MARKED_POINTS and not line.steps and not line.bare)
    paths = [_steps(run, line.closed) if line.steps else svg.path(run) for run in runs]
    return DrawnLine(line, [] if line.scattered else paths, ends, [each for run in runs for each in run if has_marks])


def _steps(places: Sequence[tuple[float, float]], closed: bool) -> str:
    first, *others = places
    wide = others[0][0] - first[0] if others else 8.0
    last = places[-1][0] + (0.0 if closed else wide)
    return (
        f"M{svg.place(first[0])} {svg.place(first[1])}"
        + "".join(f"H{svg.place(x)}V{svg.place(y)}" for x, y in others)
        + f"H{svg.place(last)}"
    )


def _legend(chart: Chart) -> Iterator[tuple[Line, int, float]]:
    """Yield each line with the row and the place of its key; a single line needs none."""
    x, row = float(LEFT), 0
    for line in chart.lines if len(chart.lines) > 1 else ():
        wide = KEY + 6 + LETTER * len(line.label) + 14
        if x > LEFT and x + wide > WIDTH:
            x, row = float(LEFT), row + 1
        yield line, row, x
        x += wide
