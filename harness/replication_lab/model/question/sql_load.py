"""A load in SQL: transactions between lines of dashes, with parameters that are drawn for each transaction."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.sql_text import Statement, parts

IDENTIFIER = r"(?:`[^`]+`|[\w$]+)"
TABLE = rf"(?P<table>{IDENTIFIER}(?:\.{IDENTIFIER})?)"
INSERTS = re.compile(
    rf"(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|INTO)\s+)*+{TABLE}(?=[\s(])", re.IGNORECASE
)
# Of one table, without an alias: a list of tables may follow in other forms.
DELETES = re.compile(
    rf"DELETE\s+(?:(?:LOW_PRIORITY|QUICK|IGNORE)\s+)*+FROM\s+{TABLE}\s*(?:$|(?:WHERE|ORDER|LIMIT|RETURNING)\b)",
    re.IGNORECASE,
)
UPDATES = re.compile(
    rf"UPDATE\s+(?:(?:LOW_PRIORITY|IGNORE)\s+)*+{TABLE}\s+(?:(?:AS\s+)?{IDENTIFIER}\s+)?SET\b", re.IGNORECASE
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


# {id:1..100} is a number, {name:8} are 8 letters, {id} is the same value again.
PARAMETER = re.compile(r"\{(?P<name>\w+)(?::(?P<range>[^{}]*))?\}")
NUMBERS = re.compile(r"\s*(\d+)\s*\.\.\s*(\d+)\s*")
NAME = re.compile(r"[A-Za-z_]\w*")
# sysbench draws numbers below 2^32; the maximum of a server's INT is lower.
HIGHEST, LONGEST = 2**31 - 1, 10_000
WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE")
READING = ("SELECT", "WITH", "SET")
BOUNDS = ("BEGIN", "START", "COMMIT", "ROLLBACK")
FIRST_WORD = re.compile(r"(?:\s|\(|/\*.*?\*/)*(\w*)", re.DOTALL)


@dataclass(frozen=True)
class Numbers:
    """Whole numbers, all equally likely."""

    low: int
    high: int


@dataclass(frozen=True)
class Letters:
    """Random lower-case letters."""

    number: int


@dataclass(frozen=True)
class Transaction:
    """Statements, each as alternating texts and names of parameters, and the source of each parameter's values.

    `changes` has for each statement the table that it changes.
    """

    statements: list[list[str]]
    parameters: dict[str, Numbers | Letters]
    writes: bool
    changes: list[Change | None]


def transactions(file: GivenFile) -> list[Transaction]:
    """Return the transactions of a file. Raise LabError for a file that cannot be a load."""
    found = [_transaction(file.name, part) for part in parts(file)]
    if not found:
        raise LabError(
            f"{file.name} holds no statement", "transactions of statements that end with ;", "read docs/asking.md"
        )
    return found


def _transaction(file: str, part: Iterable[Statement]) -> Transaction:
    parameters: dict[str, Numbers | Letters] = {}
    texts, changes, writes = [], [], False
    for statement in part:
        word, sql = _kind(file, statement)
        writes = writes or word in WRITING
        changes.append(change_of(word, sql))
        texts.append(_pieces(f"{file} line {statement.line}", statement.sql, parameters))
    return Transaction(texts, parameters, writes, changes)


def _kind(file: str, statement: Statement) -> tuple[str, str]:
    """Return a statement's first word, and its text from there. Raise LabError for one that a load cannot contain."""
    first = FIRST_WORD.match(statement.sql)
    word = first[1].upper() if first else ""
    if word in BOUNDS:
        raise LabError(
            f"{file} line {statement.line}: a load cannot contain {word}",
            "statements only: the lab begins and commits a transaction of several statements itself",
            "separate transactions by a line --",
        )
    if word not in WRITING + READING:
        raise LabError(
            f"{file} line {statement.line}: a load cannot contain {word or statement.sql[:20]}",
            f"one of {', '.join(WRITING + READING)}",
            "give other statements by --schema or --init",
        )
    return word, statement.sql[first.start(1) :] if first else ""


def _pieces(place: str, sql: str, parameters: dict[str, Numbers | Letters]) -> list[str]:
    """Return a statement as [text, name, text, …]; add its parameters to `parameters`, those of the transaction."""
    pieces, position = [], 0
    for found in PARAMETER.finditer(sql):
        name, extent = found["name"], found["range"]
        if not NAME.fullmatch(name):
            raise LabError(f"{place}: {found[0]} has no name", "{NAME:LOW..HIGH} or {NAME:LENGTH}")
        if extent is None and name not in parameters:
            raise LabError(
                f"{place}: {found[0]} has no range, and {name} was not given a range before",
                f"{{{name}:LOW..HIGH}} or {{{name}:LENGTH}} at its first use",
            )
        drawn = parameters[name] if extent is None else _drawn(place, found[0], extent)
        if parameters.setdefault(name, drawn) != drawn:
            raise LabError(
                f"{place}: {found[0]} gives {name} a different range than its first use in the same transaction",
                f"one range for each name, or {{{name}}} for the same value",
            )
        pieces += [sql[position : found.start()], name]
        position = found.end()
    return [*pieces, sql[position:]]


def _drawn(place: str, text: str, extent: str) -> Numbers | Letters:
    if numbers := NUMBERS.fullmatch(extent):
        low, high = int(numbers[1]), int(numbers[2])
        if low > high:
            raise LabError(f"{place}: {text} has a lower bound above its upper bound", f"{high}..{low}")
        if high > HIGHEST:
            raise LabError(f"{place}: {text} exceeds {HIGHEST}", f"whole numbers from 0 to {HIGHEST}")
        return Numbers(low, high)
    if extent.strip().isdecimal() and 1 <= int(extent) <= LONGEST:
        return Letters(int(extent))
    raise LabError(
        f"{place}: {text} is not a parameter",
        f"{{NAME:LOW..HIGH}} for a number, {{NAME:LENGTH}} for 1 to {LONGEST} letters",
        "{id:1..100000} or {string:8}",
    )
