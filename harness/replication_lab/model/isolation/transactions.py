"""Transactions as their clients saw them: what each read and wrote, when it began and ended, and how."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from replication_lab.model.drill.history import Outcome

# A version of a row is named by what made it: the element that was appended last, or the value that was written. Each
# is written once. None is the row as it was before the load.
Version = int | None
Key = int


class Op(msgspec.Struct, frozen=True, array_like=True):
    """One operation on a row.

    `append` adds the element `value` to the list in the row, `write` replaces the row's value. `read` has the version
    that was read as `value`, and for a list all of its elements. `sql` is the statement, if it was a user's.
    """

    does: Literal["read", "append", "write"]
    key: Key
    value: Version
    elements: tuple[int, ...] | None = None
    sql: str = ""

    @property
    def reads(self) -> bool:
        return self.does == "read"


class SeenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction of a client on a node: invoked at `began`, answered at `ended`, in seconds of one clock."""

    client: int
    node: str
    began: float
    ended: float
    outcome: Outcome
    ops: tuple[Op, ...]


class ExternalRead(NamedTuple):
    """What a transaction read of a row before it wrote it itself: of the versions of others."""

    key: Key
    version: Version


def external_reads(ops: Iterable[Op]) -> list[ExternalRead]:
    """Return the first read of each row that the transaction had not written before."""
    found, touched = list[ExternalRead](), set[Key]()
    for op in ops:
        if op.reads and op.key not in touched:
            found.append(ExternalRead(op.key, op.value))
        touched.add(op.key)
    return found
