"""Runs over time as text: each series with its latest value, and one series run by run with its changes."""

import itertools
from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from replication_lab.model.comparing.over_time import FEWEST_RUNS, LevelChange, Place, Series
from replication_lab.report.wording import number

BARS = "▁▂▃▄▅▆▇█"
# The number of latest values of a series that a sparkline shows, and of the places of a dot.
DRAWN = 24


def overview(series: Sequence[Series]) -> Table:
    """Return a table with a row for each series."""
    table = Table(box=None, pad_edge=False)
    for heading in ("experiment", "engine", "claim or figure"):
        table.add_column(heading)
    for heading in ("runs", "latest"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("latest runs", no_wrap=True)
    table.add_column("changes", no_wrap=True)
    for one in series:
        table.add_row(
            _experiment(one.place),
            one.place.engine,
            one.of,
            str(len(one.points)),
            number(one.points[-1].value),
            sparkline([point.value for point in one.points[-DRAWN:]]),
            _changes(one),
        )
    return table


def _experiment(place: Place) -> str:
    conditions = "".join(f", {name} {value}" for name, value in place.conditions)
    against = f", against {place.against}" if place.against else ""
    return f"{place.experiment} ({place.preset}{conditions}{against})"


def _changes(series: Series) -> str:
    if len(series.points) < FEWEST_RUNS:
        return f"needs {FEWEST_RUNS} runs"
    return ", ".join(f"{percent(change)} at {series.points[change.at].run}" for change in series.changes) or "none"


def percent(change: LevelChange) -> str:
    """Return a change as "-12.9 %"."""
    return f"{100 * (change.ratio - 1):+.1f} %"


def sparkline(values: Sequence[float]) -> str:
    """Return a bar for each value, scaled between the smallest and the largest."""
    least, most = min(values), max(values)
    if most <= least:
        return BARS[0] * len(values)
    return "".join(BARS[round((value - least) / (most - least) * (len(BARS) - 1))] for value in values)


def run_by_run(series: Series) -> Group:
    """Return one series: a row and a dot for each run, and a line where its level or the server's version changed."""
    place = series.place
    head = Text(f"{series.of}, {_experiment(place)}, {place.engine}")
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "server"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rounds", "value"):
        table.add_column(heading, justify="right", no_wrap=True)
    values = [point.value for point in series.points]
    least, most = min(values), max(values)
    table.add_column(f"{number(least)} to {number(most)}", no_wrap=True)
    levels = {change.at: f"·· {percent(change)} ··" for change in series.changes}
    for number_, point in enumerate(series.points):
        if number_ in levels:
            table.add_row("", "", "", levels[number_])
        told = point.run, point.version.partition(" from ")[0], str(point.rounds), number(point.value)
        table.add_row(*told, _dot(point.value, least, most))
    return Group(head, table, Text("\n".join(_remarks(series))))


def _dot(value: float, least: float, most: float) -> str:
    """Return a line of dots with a mark at the place of a value between the smallest and the largest."""
    place = round((value - least) / (most - least) * (DRAWN - 1)) if most > least else 0
    return "·" * place + "●" + "·" * (DRAWN - 1 - place)


def _remarks(series: Series) -> Iterator[str]:
    points = series.points
    if len(points) < FEWEST_RUNS:
        yield f"{len(points)} runs; at least {FEWEST_RUNS} are needed to detect a change"
    elif not series.changes:
        yield "no change"
    for change in series.changes:
        if change.cpu_time and change.is_of_the_cpus:
            became = "slower" if change.cpu_time > 1 else "faster"
            yield (
                f"run {points[change.at].run}: from this run on the CPUs were {became} (a loop took "
                f"{change.cpu_time:.2f} times as long), which may explain the change"
            )
    for before, after in itertools.pairwise(points):
        if before.version != after.version:
            yield f"run {after.run}: the server's version changed from {before.version} to {after.version}"
