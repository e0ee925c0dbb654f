"""The commands' output, and their question before they remove something; text and data go to standard output."""

import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any, Literal, NoReturn

import click
import msgspec
from rich.console import ConsoleOptions, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.world import clock
from replication_lab.world.console import Console

# With NO_COLOR, print no escape sequence at all, not even for bold text.
STYLES: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"

# What `print_json` prints in place of JSON if it is asked for.
CSV = "csv"

# -1 (--quiet): no progress and no remarks are printed. 1 (--verbose): each is printed with its time, and an error with
# the place in the code that raised it.
told = {"level": 0}
BEGAN = clock.timer()

# Spaces between two columns.
GAP = 2


class Out(Console):
    """Standard output; a table that would not fit without cutting words is printed as a list, row by row."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, including what is nested in other renderables."""
        room = options or self.options
        if isinstance(renderable, Table) and _width(self, room, renderable) > room.max_width:
            renderable = _row_by_row(renderable)
        return super().render(renderable, options)


def _width(console: Console, room: ConsoleOptions, table: Table) -> int:
    """Return the width that a table needs if no word is cut."""
    unbound = room.update(max_width=sys.maxsize)
    wanted = 0
    for column in table.columns:
        sizes = [Measurement.get(console, unbound, cell) for cell in (column.header, *column.cells)]
        wanted += max((size.maximum if column.no_wrap else size.minimum for size in sizes), default=0)
    return wanted + GAP * (len(table.columns) - 1)


def _row_by_row(table: Table) -> Table:
    """Return a table of two columns: for each row a line with each heading and value, then an empty line."""
    found = Table(box=None, pad_edge=False, show_header=False)
    for _ in ("heading", "value"):
        found.add_column(overflow="fold")
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, row, strict=True):
            if cell != "":
                found.add_row(column.header, cell)
        found.add_row("", "")
    return found


# A pipe has no width of its own; addresses and sentences must not be broken.
out = Out(highlight=False, width=None if sys.stdout.isatty() else 140, color_system=STYLES)
err = Console(stderr=True, highlight=False, soft_wrap=True, color_system=STYLES)


def has_desktop() -> bool:
    """Return whether a browser can be opened for the user who types."""
    desktop = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return desktop and sys.stdout.isatty()


def tell(line: str) -> None:
    """Print progress or a remark to standard error: standard output is for the result."""
    if told["level"] >= 0:
        err.print(f"{clock.timer() - BEGAN:6.1f} s  {line}" if told["level"] else line, markup=False)


def complain(error: Exception) -> None:
    """Print an error to standard error."""
    err.print(f"[red]error:[/] {escape(str(error))}")
    if told["level"] > 0:
        traceback.print_exc()


def print_json(data: Any, form: object = True) -> None:
    """Print data for programs; if the form is CSV, a table for each list of rows, with an empty line between two."""
    if form != CSV:
        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    from replication_lab.report.formats import csv_text

    rows = msgspec.to_builtins(data if isinstance(data, list) else [data])
    tables = rows if rows and isinstance(rows[0], list) else [rows]
    click.echo("\n".join(csv_text(list(table[0]), map(_cells, table)) for table in tables if table), nl=False)


def _cells(row: dict[str, Any]) -> list[object]:
    return [msgspec.json.encode(each).decode() if isinstance(each, (list, dict)) else each for each in row.values()]


def at_terminal() -> bool:
    """Return whether somebody can answer."""
    return sys.stdin.isatty()


def ask(question: str, what: str, again: str) -> None:
    """Go on only if the user agrees; `what` would happen, and `again` is the same command.

    Raise LabError for another answer, and without a terminal.
    """
    if not at_terminal():
        raise LabError(f"{what}; there is no terminal to confirm it", "a terminal, or --yes", f"{again} --yes")
    if not click.confirm(question, err=True):
        raise LabError("not confirmed; nothing was changed", "the answer y", f"{again} --yes")


def leave_by(checked: Iterable[Any], failed: ExitCode) -> NoReturn:
    """End the command with GOOD if each check is good, else with `failed`."""
    sys.exit(ExitCode.GOOD if all(each.ok for each in checked) else failed)
