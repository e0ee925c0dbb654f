"""A chart of lines as data, and as SVG; the page's script draws the same data with a tooltip, zoom and a legend."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeGuard

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


def drawn(chart: Chart, style: str = "") -> str:
    """Return the chart as SVG; `style` is the style sheet of one that stands alone."""
    legend = list(_legend(chart))
    rows = 1 + max((row for _, row, _ in legend), default=0)
    top = TOP + LEGEND * (rows - 1)
    bottom = chart.height - BOTTOM - STRIP * len(chart.strips)
    places = [x for line in chart.lines for x, _ in line.points]
    left, right = chart.x_ends or svg.around(places, chart.log_x, 0.03)
    low, high = svg.around(values(chart), chart.log_y)
    across, up = (
        Scale(left, right, LEFT, WIDTH - RIGHT, chart.log_x),
        Scale(low, high, bottom, top, chart.log_y),
    )
    parts = [
        style,
        *_bands(chart, across, top, bottom),
        *_grid(chart, across, up, top, bottom),
        *(part for line in chart.lines for part in _line(line, across, up)),
        *_strips(chart, across, bottom),
        *(_key(line, row, x) for line, row, x in legend),
    ]
    return svg.picture(WIDTH, chart.height, chart.told, *parts, about=chart.about, class_="chart")


def _bands(chart: Chart, across: Scale, top: float, bottom: float) -> Iterator[str]:
    free = [-math.inf] * ROWS_OF_LABELS
    for band in chart.bands:
        begin, end = across.at(band.begin), across.at(band.end)
        told = svg.tag("title", svg.escape(band.label))
        yield svg.tag("g", told, svg.rect(begin, top, max(end - begin, 1), bottom - top, class_=f"band {band.kind}"))
        wide = LETTER * len(band.label)
        if band.kind.startswith(CASE) and wide > end - begin:
            continue
        x = min(begin + 3, WIDTH - RIGHT - wide)
        # A label without room is left out: the title and the table of phases have it.
        row = next((number for number, taken in enumerate(free) if x >= taken), None)
        if row is not None:
            yield svg.text(band.label, x, top + 11 + 13 * row, class_="tick band-label")
            free[row] = x + wide


def _grid(chart: Chart, across: Scale, up: Scale, top: float, bottom: float) -> Iterator[str]:
    for tick in up.ticks(5) if chart.lines else ():
        y = up.at(tick)
        yield svg.line(LEFT, y, WIDTH - RIGHT, y, class_="grid")
        yield svg.text(svg.label(tick), LEFT - 6, y + 4, class_="tick", text_anchor="end")
    foot = bottom + STRIP * len(chart.strips)
    for tick in chart.x_ticks or across.ticks(9):
        x = across.at(tick)
        yield svg.line(x, foot, x, foot + 4, class_="axis")
        yield svg.text(chart.named.get(f"{tick:g}", svg.label(tick)), x, foot + 16, class_="tick", text_anchor="middle")
    yield svg.line(LEFT, bottom, WIDTH - RIGHT, bottom, class_="axis")
    yield svg.text(chart.x, (LEFT + WIDTH - RIGHT) / 2, foot + 32, class_="label", text_anchor="middle")
    y = (top + bottom) / 2
    if chart.y:
        yield svg.text(chart.y, 13, y, class_="label", text_anchor="middle", transform=f"rotate(-90 13 {svg.place(y)})")


def _line(line: Line, across: Scale, up: Scale) -> Iterator[str]:
    look = f"s{line.look % LOOKS + 1}"
    for known, run in groupby(line.points, key=lambda point: _is_known(point[1])):
        if known and not line.scattered:
            places = [(across.at(x), up.at(y)) for x, y in run if _is_known(y)]
            yield svg.tag("path", d=_steps(places, line.closed) if line.steps else _path(places), class_=f"line {look}")
    for (x, _), ends in zip(line.points, line.ends, strict=False):
        if ends:
            yield svg.line(across.at(x), up.at(ends[0]), across.at(x), up.at(ends[1]), class_=f"ends {look}")
    if line.scattered or (len(line.points) <= MARKED_POINTS and not line.steps and not line.bare):
        yield from (
            svg.marker(line.look, across.at(x), up.at(y), 3.2, class_=f"dot {look}")
            for x, y in line.points
            if _is_known(y)
        )


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{svg.place(x)} {svg.place(y)}" for x, y in places)


def _steps(places: Sequence[tuple[float, float]], closed: bool) -> str:
    first, *others = places
    wide = others[0][0] - first[0] if others else 8.0
    last = places[-1][0] + (0.0 if closed else wide)
    return (
        f"M{svg.place(first[0])} {svg.place(first[1])}"
        + "".join(f"H{svg.place(x)}V{svg.place(y)}" for x, y in others)
        + f"H{svg.place(last)}"
    )


def _strips(chart: Chart, across: Scale, bottom: float) -> Iterator[str]:
    for number, strip in enumerate(chart.strips):
        y = bottom + STRIP * number + 2
        yield svg.text(strip.label, LEFT - 6, y + 10, class_="tick", text_anchor="end")
        for begin, end, state, tone in strip.spans:
            x, wide = across.at(begin), across.at(end) - across.at(begin)
            told = svg.tag("title", svg.escape(f"{strip.label}: {state}, {begin:g}–{end:g} s"))
            shown = svg.text(state, x + 3, y + 10, class_="tick state") if wide > LETTER * len(state) else ""
            yield svg.tag("g", told, svg.rect(x, y, wide, STRIP - 3, class_=f"strip {tone}"), shown)


def _legend(chart: Chart) -> Iterator[tuple[Line, int, float]]:
    """Yield each line with the row and the place of its key; a single line needs none."""
    x, row = float(LEFT), 0
    for line in chart.lines if len(chart.lines) > 1 else ():
        wide = KEY + 6 + LETTER * len(line.label) + 14
        if x > LEFT and x + wide > WIDTH:
            x, row = float(LEFT), row + 1
        yield line, row, x
        x += wide


def _key(line: Line, row: int, x: float) -> str:
    y, look = 10 + LEGEND * row, f"s{line.look % LOOKS + 1}"
    dot = "" if line.steps or line.bare else svg.marker(line.look, x + KEY / 2, y, 3.2, class_=f"dot {look}")
    key = "" if line.scattered else svg.line(x, y, x + KEY, y, class_=f"line {look}")
    return svg.tag("g", key, dot, svg.text(line.label, x + KEY + 6, y + 4, class_="label"))
