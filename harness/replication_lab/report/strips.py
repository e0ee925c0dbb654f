"""Pictures of a case's figures for the rows of a table: a value with its interval, and a strip of percentiles."""

from collections.abc import Iterable, Sequence

from replication_lab.report import svg
from replication_lab.report.rows import FigureRow
from replication_lab.report.svg import Scale

WIDTH, HEIGHT, MARGIN = 200, 24, 8
MIDDLE = HEIGHT / 2


def scale(values: Iterable[float | None]) -> Scale | None:
    """Return the common logarithmic scale of some rows; None without a value that has a place on it."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return None
    low, high = svg.around(known, log=True)
    return Scale(low, high, MARGIN, WIDTH - MARGIN, log=True)


def axis(on: Scale, told: str) -> str:
    """Return the labels above the rows, as many as have room."""
    ticks = on.ticks(4)
    marks = [svg.tick_label(svg.label(tick), on.at(tick), 14, WIDTH) for tick in ticks]
    lines = [svg.line(on.at(tick), 18, on.at(tick), HEIGHT, class_="axis") for tick in ticks]
    return svg.picture(WIDTH, HEIGHT, told, *marks, *lines, class_="bar")


def figures_of(row: FigureRow) -> list[float | None]:
    return [row.value, row.low, row.high, row.published, row.predicted]


def figure(row: FigureRow, on: Scale, told: str) -> str:
    """Return a figure: measured as a circle with its interval, predicted as a stroke, published as a hollow diamond."""
    parts = []
    if row.low is not None and row.high is not None:
        ends = [on.at(row.low), on.at(row.high)]
        parts.append(svg.line(ends[0], MIDDLE, ends[1], MIDDLE, class_="ends s1"))
    if row.predicted:
        x = on.at(row.predicted)
        parts.append(svg.line(x, 3, x, HEIGHT - 3, class_="predicted"))
    if row.published:
        parts.append(svg.marker(2, on.at(row.published), MIDDLE, 4, class_="published"))
    if row.value:
        parts.append(svg.marker(0, on.at(row.value), MIDDLE, 3.6, class_="dot s1"))
    return svg.picture(WIDTH, HEIGHT, told, *parts, class_="bar")


def spread(percentiles: Sequence[float], on: Scale, told: str) -> str:
    """Return a strip of the 5th, 50th, 95th and 99th percentile and the largest value."""
    p5, p50, p95, p99, most = map(on.at, percentiles)
    return svg.picture(
        WIDTH,
        HEIGHT,
        told,
        svg.line(p95, MIDDLE, most, MIDDLE, class_="ends s1"),
        svg.rect(p5, MIDDLE - 5, max(p95 - p5, 1.5), 10, class_="range", rx=2.0),
        svg.line(p50, MIDDLE - 7, p50, MIDDLE + 7, class_="line s1"),
        svg.line(p99, MIDDLE - 4, p99, MIDDLE + 4, class_="ends s1"),
        class_="bar",
    )


def spark(values: Sequence[float | None], bands: Sequence[tuple[float, float]], told: str) -> str:
    """Return a small line over time without labels; `bands` are spans of it, in shares of its width."""
    known = [value for value in values if value is not None]
    on = Scale(0, max(known, default=1) or 1, HEIGHT - 2, 2)
    step = (WIDTH - 4) / max(len(values), 1)
    parts = [
        svg.rect(2 + begin * (WIDTH - 4), 0, max((end - begin) * (WIDTH - 4), 1.5), HEIGHT, class_="band")
        for begin, end in bands
    ]
    path, drawing = "", False
    for number, value in enumerate(values):
        if value is not None:
            x, y = svg.place(2 + number * step), svg.place(on.at(value))
            path += f"{'L' if drawing else 'M'}{x} {y}H{svg.place(2 + (number + 1) * step)}"
        drawing = value is not None
    parts += [svg.tag("path", d=path, class_="spark")] if path else []
    return svg.picture(WIDTH, HEIGHT, told, *parts, class_="bar")


def length(value: float, most: float, told: str) -> str:
    """Return a bar from zero."""
    on = Scale(0, most or 1, 2, WIDTH - 2)
    return svg.picture(
        WIDTH, HEIGHT, told, svg.rect(2, 6, on.at(value) - 2, HEIGHT - 12, class_="bar-fill", rx=2.0), class_="bar"
    )


def measured(asked: Sequence[float], during: tuple[float, float, float], on: Scale, told: str) -> str:
    """Return a spread (least, median, most), and a stroke for each requested figure."""
    least, middle, most = map(on.at, during)
    return svg.picture(
        WIDTH,
        HEIGHT,
        told,
        svg.rect(least, MIDDLE - 4, max(most - least, 1.5), 8, class_="range", rx=2.0),
        *(svg.line(on.at(each), 3, on.at(each), HEIGHT - 3, class_="predicted") for each in asked),
        svg.marker(0, middle, MIDDLE, 3.2, class_="dot s1"),
        class_="bar",
    )
