"""A user's transactions as reads and writes of columns in rows that one key names, or why they are not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replication_lab.model.core.errors import LabError
from replication_lab.model.question.sql_load import IDENTIFIER, TABLE, Numbers, Transaction, full_name

VALUE = r"(?:\{\w+\}|\d+)"
BY_KEY = rf"\s+WHERE\s+(?P<key_column>{IDENTIFIER})\s*=\s*(?P<key>{VALUE})"
SELECT = re.compile(
    rf"SELECT\s+(?P<columns>\*|{IDENTIFIER}(?:\s*,\s*{IDENTIFIER})*)\s+FROM\s+{TABLE}{BY_KEY}"
    r"(?:\s+(?:FOR\s+(?:UPDATE|SHARE)|LOCK\s+IN\s+SHARE\s+MODE))?",
    re.IGNORECASE,
)
SET = rf"{IDENTIFIER}\s*=\s*\{{\w+\}}"
WRITTEN = re.compile(rf"({IDENTIFIER})\s*=\s*\{{(\w+)\}}")
COLUMN = re.compile(rf"\*|{IDENTIFIER}")
UPDATE = re.compile(rf"UPDATE\s+{TABLE}\s+SET\s+(?P<sets>{SET}(?:\s*,\s*{SET})*){BY_KEY}", re.IGNORECASE)
COMPUTES = re.compile(rf"UPDATE\s.*{BY_KEY}", re.IGNORECASE | re.DOTALL)
READABLE = "SELECT COLUMN FROM TABLE WHERE KEY = {k:1..9}, UPDATE TABLE SET COLUMN = {v:1..2000000000} WHERE KEY = {k}"
INSTEAD = "./lab run isolation, which checks servers with transactions of the lab's own"
# Each value is written once. A load of some minutes needs so many.
FEWEST_VALUES = 1_000_000


class RowStep(NamedTuple):
    """A statement on one row: the columns that it reads ("*" is any), or the columns that it writes.

    `pieces` alternate between text and the name of a parameter. `key` is such a name, or a number; `values` are the
    names of those that it writes.
    """

    pieces: list[str]
    table: str
    key_column: str
    key: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegisterTransaction:
    """The steps of a transaction, and the numbers of which each parameter is one that is drawn, not written."""

    steps: list[RowStep]
    drawn: dict[str, Numbers]


@dataclass(frozen=True)
class Registers:
    """Transactions on single rows; `columns` are the tables and columns that they write, with one of `values` each."""

    transactions: list[RegisterTransaction]
    columns: list[tuple[str, str]]
    values: Numbers

    @property
    def rows(self) -> set[tuple[str, str, Numbers]]:
        """Return which keys the steps use: the table, the column of its keys, the least and the greatest of them."""
        return {
            (step.table, step.key_column, each.drawn.get(step.key) or Numbers(*[int(step.key)] * 2))
            for each in self.transactions
            for step in each.steps
        }


def registers(transactions: Sequence[Transaction]) -> Registers:
    """Return the user's transactions as steps. Raise LabError that names the statement that is none, and why."""
    found = [_transaction(each) for each in transactions]
    steps = [step for each in found for step in each.steps]
    columns = sorted({(step.table, column) for step in steps for column in step.writes})
    if not any(step.table == table and {column, "*"} & {*step.reads} for step in steps for table, column in columns):
        raise _unreadable("no statement reads a column that a statement writes, so that nothing shows an anomaly")
    keys = {step.table: step.key_column for step in steps}
    for step in steps:
        if keys[step.table] != step.key_column:
            why = f"rows of {step.table} are found by {keys[step.table]} elsewhere, and which are the same is not known"
            raise _unreadable(f"{_text(step.pieces)}: {why}")
        if (step.table, step.key_column) in columns:
            raise _unreadable(f"{_text(step.pieces)}: it finds its row by a column that is written")
    return Registers(found, columns, _values(transactions, found))


def _transaction(given: Transaction) -> RegisterTransaction:
    steps = [_step(pieces) for pieces in given.statements]
    written = {name for step in steps for name in step.values}
    drawn = {name: each for name, each in given.parameters.items() if name not in written and isinstance(each, Numbers)}
    for step in steps:
        if not step.key.isdecimal() and step.key not in drawn:
            raise _unreadable(f"{_text(step.pieces)}: its key {{{step.key}}} is not a number, or is written elsewhere")
    return RegisterTransaction(steps, drawn)


def _step(pieces: list[str]) -> RowStep:
    text = _text(pieces)
    if found := SELECT.fullmatch(text):
        return RowStep(pieces, *_row(found), reads=tuple(map(_name, COLUMN.findall(found["columns"]))))
    if found := UPDATE.fullmatch(text):
        columns, values = zip(*WRITTEN.findall(found["sets"]), strict=True)
        return RowStep(pieces, *_row(found), writes=tuple(map(_name, columns)), values=values)
    raise _unreadable(f"{text}: {_why(text)}")


def _row(found: re.Match[str]) -> tuple[str, str, str]:
    return full_name(found["table"]), _name(found["key_column"]), found["key"].strip("{}")


def _name(column: str) -> str:
    """Return the name of a column, which servers take in upper and lower case."""
    return column.strip("`").lower()


def _why(text: str) -> str:
    word = text.split(maxsplit=1)[0].upper()
    if COMPUTES.fullmatch(text):
        return "what it writes is not a parameter of its own, so that a read does not show whose write it saw"
    if word in ("SELECT", "UPDATE"):
        return "it does not name one row by one key"
    return f"{word} neither reads nor updates a row that is there"


def _values(transactions: Sequence[Transaction], found: Sequence[RegisterTransaction]) -> Numbers:
    """Return the numbers that all parameters that are written have in common."""
    written = [
        (name, given.parameters[name])
        for given, each in zip(transactions, found, strict=True)
        for step in each.steps
        for name in step.values
    ]
    numbers = [each for _, each in written if isinstance(each, Numbers)]
    low, high = max((each.low for each in numbers), default=1), min((each.high for each in numbers), default=0)
    if len(numbers) < len(written) or high - low < FEWEST_VALUES:
        raise LabError(
            f"--check: {', '.join(sorted({f'{{{name}}}' for name, _ in written}))} have less than {FEWEST_VALUES} "
            "numbers in common",
            "a wide range of numbers for each parameter that is written: the lab writes each number once",
            "{v:1..2000000000}",
        )
    return Numbers(low, high)


def _text(pieces: Sequence[str]) -> str:
    return "".join(f"{{{piece}}}" if number % 2 else piece for number, piece in enumerate(pieces)).strip()


def _unreadable(found: str) -> LabError:
    return LabError(f"--check: {found}", READABLE, INSTEAD)
