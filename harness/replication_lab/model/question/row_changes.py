"""Which table a statement of a user's load changes, and by how many rows, as far as its text tells."""

import re
from collections.abc import Iterable
from typing import NamedTuple

NAME = r"(?:`[^`]+`|[\w$]+)"
TABLE = rf"(?P<table>{NAME}(?:\.{NAME})?)"
INSERTS = re.compile(
    rf"(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|INTO)\s+)*+{TABLE}(?=[\s(])", re.IGNORECASE
)
# Of one table, without an alias: a list of tables may follow in other forms.
DELETES = re.compile(
    rf"DELETE\s+(?:(?:LOW_PRIORITY|QUICK|IGNORE)\s+)*+FROM\s+{TABLE}\s*(?:$|(?:WHERE|ORDER|LIMIT|RETURNING)\b)",
    re.IGNORECASE,
)
UPDATES = re.compile(
    rf"UPDATE\s+(?:(?:LOW_PRIORITY|IGNORE)\s+)*+{TABLE}\s+(?:(?:AS\s+)?{NAME}\s+)?SET\b", re.IGNORECASE
)
# The server reports a replaced or updated row in the same number as inserted ones.
MAY_REPLACE = re.compile(r"REPLACE|.*\bON\s+DUPLICATE\b", re.IGNORECASE | re.DOTALL)
MAY_DELETE = re.compile(r"\b(?:DELETE|REPLACE|INSERT)\b", re.IGNORECASE)
# The schema in which clients are.
SCHEMA = "lab"


class Change(NamedTuple):
    """A table that a statement changes, as SCHEMA.TABLE; an empty string if it may be any.

    `sign` is 1 if the rows that the server reports are new, -1 if they are gone, 0 if their number tells neither, and
    None if the table keeps its number of rows.
    """

    table: str
    sign: int | None


def change_of(word: str, sql: str) -> Change | None:
    """Return the change by a statement with this first word; None if it changes no table."""
    if word in ("INSERT", "REPLACE"):
        return _change(INSERTS.match(sql), 0 if MAY_REPLACE.match(sql) else 1)
    if word == "DELETE":
        return _change(DELETES.match(sql), -1)
    if word == "UPDATE":
        return _change(UPDATES.match(sql), None)
    return Change("", 0) if word == "WITH" and MAY_DELETE.search(sql) else None


def _change(found: re.Match[str] | None, sign: int | None) -> Change:
    if found is None:
        return Change("", 0 if sign is not None else None)
    return Change(full_name(found["table"]), sign)


def full_name(table: str) -> str:
    """Return a table's name in a statement as SCHEMA.TABLE."""
    name = table.replace("`", "")
    return name if "." in name else f"{SCHEMA}.{name}"


def directions(changes: Iterable[Change | None]) -> dict[str, int]:
    """Return, by table, the sign of all changes together; 0 for a table whose rows they insert and delete."""
    found: dict[str, int] = {}
    for change in filter(None, changes):
        if change.sign is not None:
            found[change.table] = change.sign if found.get(change.table, change.sign) == change.sign else 0
    return found
