"""The transactions of a user's workload, as the clients of a drill send them: in random order, with random values."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from replication_lab.model.question.row_changes import Change
from replication_lab.model.question.sql_load import Letters, Numbers, Transaction


@dataclass(frozen=True)
class Drawn:
    """One transaction as it is sent, and the table whose number of rows each statement changes."""

    statements: list[str]
    writes: bool
    changes: Sequence[Change | None] = ()


def drawn(transactions: Sequence[Transaction], seed: int, client: int) -> Iterator[Drawn]:
    """Yield transactions endlessly: all in a random order, then again in another one, like the load's clients."""
    dice = Random(f"{seed}:{client}")
    while True:
        for transaction in dice.sample(transactions, len(transactions)):
            values = {name: _value(wanted, dice) for name, wanted in transaction.parameters.items()}
            statements = [_statement(pieces, values) for pieces in transaction.statements]
            yield Drawn(statements, transaction.writes, transaction.changes)


def _value(wanted: Numbers | Letters, dice: Random) -> str:
    if isinstance(wanted, Numbers):
        return str(dice.randint(wanted.low, wanted.high))
    return "".join(dice.choices(string.ascii_lowercase, k=wanted.number))


def _statement(pieces: Sequence[str], values: dict[str, str]) -> str:
    """Return the statement made of `pieces`, which alternate between text and the name of a parameter."""
    return "".join(values[piece] if number % 2 else piece for number, piece in enumerate(pieces))
