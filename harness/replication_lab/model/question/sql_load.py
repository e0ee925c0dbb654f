"""A load in SQL: transactions between lines of dashes, with parameters that are drawn for each transaction."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.row_changes import Change, change_of
from replication_lab.model.question.sql_text import Statement, parts

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
