"""Are transactions committed, and lost conflicts told by their kind?"""

import contextlib

import pymysql
import pytest
from replication_lab.world.mysql.client import Conflict, transaction


class Transacting:
    """A connection that keeps what it is asked, and refuses one statement with an error of this number."""

    def __init__(self, refuses: str = "", code: int = 0):
        self.refuses, self.code, self.told = refuses, code, []

    @contextlib.contextmanager
    def cursor(self):
        yield self

    def execute(self, statement: str) -> None:
        self.told.append(statement)
        if statement == self.refuses:
            raise pymysql.err.OperationalError(self.code, "refused")

    def rollback(self) -> None:
        self.told.append("rolled back")


def test_a_transaction_is_committed_at_the_end_of_its_block():
    """BEGIN before, COMMIT after."""
    connection = Transacting()
    with transaction(connection) as cursor:
        cursor.execute("UPDATE")

    assert connection.told == ["BEGIN", "UPDATE", "COMMIT"]


@pytest.mark.parametrize(("code", "kind"), [(1213, "deadlock"), (1205, "timeout")])
@pytest.mark.parametrize("statement", ["UPDATE", "COMMIT"])
def test_a_lost_conflict_is_rolled_back_and_told_by_its_kind(code, kind, statement):
    """In a statement or, as Galera does, at the commit."""
    connection = Transacting(statement, code)
    with pytest.raises(Conflict) as lost, transaction(connection) as cursor:
        cursor.execute("UPDATE")

    assert (lost.value.kind, connection.told[-1]) == (kind, "rolled back")


def test_another_error_is_no_conflict():
    """A minority's refusal (1047) is not something to try again at once."""
    with pytest.raises(pymysql.err.OperationalError), transaction(Transacting("COMMIT", 1047)):
        pass
