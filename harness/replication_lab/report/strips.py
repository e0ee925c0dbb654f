"""Pictures of a case's figures for the rows of a table: a value with its interval, and a strip of percentiles."""

from collections.abc import Iterable, Sequence

from replication_lab.report import svg
from replication_lab.report.rows import FigureRow
from replication_lab.report.svg import Scale

WIDTH, HEIGHT, MARGIN = 200, 24, 8


def scale(values: Iterable[float | None]) -> Scale | None:
    """Return the common logarithmic scale of some rows; None without a value that has a place on it."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return None
    low, high = svg.around(known, log=True)
    return Scale(low, high, MARGIN, WIDTH - MARGIN, log=True)


def axis(on: Scale, told: str) -> str:
    """Return the labels above the rows, as many as have room."""
    return str(svg.elements().axis(on, on.ticks(4), svg.label, told, WIDTH, HEIGHT))


def figures_of(row: FigureRow) -> list[float | None]:
    return [row.value, row.low, row.high, row.published, row.predicted]


def figure(row: FigureRow, on: Scale, told: str) -> str:
    """Return a figure: measured as a circle with its interval, predicted as a stroke, published as a hollow diamond."""
    return str(svg.elements().figure(row, on, told, WIDTH, HEIGHT))


def spread(percentiles: Sequence[float], on: Scale, told: str) -> str:
    """Return a strip of the 5th, 50th, 95th and 99th percentile and the largest value."""
    return str(svg.elements().spread([*map(on.at, percentiles)], told, WIDTH, HEIGHT))


def spark(values: Sequence[float | None], bands: Sequence[tuple[float, float]], told: str) -> str:
    """Return a small line over time without labels; `bands` are spans of it, in shares of its width."""
    on = Scale(0, max(filter(None, values), default=1) or 1, HEIGHT - 2, 2)
    step = (WIDTH - 4) / max(len(values), 1)
    path, drawing = "", False
    for number, value in enumerate(values):
        if value is not None:
            x, y = svg.place(2 + number * step), svg.place(on.at(value))
            path += f"{'L' if drawing else 'M'}{x} {y}H{svg.place(2 + (number + 1) * step)}"
        drawing = value is not None
    places = [tuple(2 + share * (WIDTH - 4) for share in band) for band in bands]
    return str(svg.elements().spark(path, places, told, WIDTH, HEIGHT))


def length(value: float, most: float, told: str) -> str:
    """Return a bar from zero."""
    return str(svg.elements().length(Scale(0, most or 1, 2, WIDTH - 2).at(value), told, WIDTH, HEIGHT))


def measured(asked: Sequence[float], during: tuple[float, float, float], on: Scale, told: str) -> str:
    """Return a spread (least, median, most), and a stroke for each requested figure."""
    return str(svg.elements().measured([*map(on.at, asked)], [*map(on.at, during)], told, WIDTH, HEIGHT))
