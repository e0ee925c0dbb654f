"""Tables as CSV, which spreadsheets read."""

import csv
import io
from collections.abc import Iterable, Sequence

from replication_lab.model.core.visible import visible

# A spreadsheet computes a cell that begins with one of these. The text may come from a record of somebody else.
FORMULAS = ("=", "+", "-", "@", "\t")


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV; a text that a spreadsheet would compute gets an apostrophe, numbers stay as they are.

    A carriage return would begin a new row for many readers, and is escaped as other control characters.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_as_text(cell) for cell in row] for row in (head, *rows))
    return text.getvalue()


def _as_text(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    said = visible(cell)
    return f"'{said}" if said.startswith(FORMULAS) else said
