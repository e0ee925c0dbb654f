"""Transactions in SQL, translated into a script for sysbench."""

import string
from collections.abc import Iterable
from pathlib import Path

from replication_lab.model.question.sql_load import Letters, Numbers, Transaction

SCRIPT = Path(__file__).with_suffix(".lua")
PLAIN = set(string.printable.encode()) - set(string.whitespace.encode()) - set(b'"\\') | set(b" ")


def script_of(transactions: Iterable[Transaction]) -> str:
    """Return the script in Lua that runs these transactions."""
    listed = "".join(f"  {_transaction(each)},\n" for each in transactions)
    return f"transactions = {{\n{listed}}}\n\n{SCRIPT.read_text()}"


def _transaction(transaction: Transaction) -> str:
    statements = transaction.statements
    if len(statements) > 1:
        statements = [["BEGIN"], *statements, ["COMMIT"]]
    return _table(
        f"writes = {str(transaction.writes).lower()}",
        f"parameters = {_table(*(_parameter(name, drawn) for name, drawn in transaction.parameters.items()))}",
        f"statements = {_table(*(_table(*map(quoted, pieces)) for pieces in statements))}",
    )


def _parameter(name: str, drawn: Numbers | Letters) -> str:
    if isinstance(drawn, Letters):
        return _table(f"name = {quoted(name)}", f"letters = {drawn.number}")
    return _table(f"name = {quoted(name)}", f"low = {drawn.low}", f"high = {drawn.high}")


def _table(*entries: str) -> str:
    return f"{{ {', '.join(entries)} }}"


def quoted(text: str) -> str:
    """Return a text as Lua reads it, in ASCII: any other byte is a backslash and three digits."""
    plain = (chr(byte) if byte in PLAIN else f"\\{byte:03d}" for byte in text.encode())
    return f'"{"".join(plain)}"'
