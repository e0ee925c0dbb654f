"""Operations on an open connection to a server, or to an echo server in its place."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from replication_lab.model.lab import mysql_errors
from replication_lab.world.packets.echo import EchoConnection

# Bytes; more than a statement adds to the data in it.
STATEMENT = 1000


class Conflict(Exception):
    """An error for a transaction that lost against another one and was rolled back; `kind` is deadlock or timeout."""

    def __init__(self, kind: str):
        super().__init__(kind)
        self.kind = kind


@contextmanager
def transaction(connection: pymysql.Connection) -> Iterator[pymysql.cursors.Cursor]:
    """Run a transaction, committed at the end of the block; Conflict if it lost and was rolled back."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            yield cursor
            cursor.execute("COMMIT")
    except pymysql.err.MySQLError as error:
        kind = mysql_errors.conflict(mysql_errors.code_of(error))
        if not kind:
            raise
        connection.rollback()
        raise Conflict(kind) from error


def long_answer(connection: pymysql.Connection | EchoConnection, size: int) -> None:
    """Receive this many bytes; OSError or an error of MySQL's when they do not come."""
    if isinstance(connection, EchoConnection):
        connection.long_answer(size)
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT REPEAT('x', {size})")
        cursor.fetchall()


def longest_question(connection: pymysql.Connection | EchoConnection) -> int:
    """Return the most bytes that one statement can carry."""
    if isinstance(connection, EchoConnection):
        return sys.maxsize
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        (most,) = cursor.fetchone() or (0,)
    return most - STATEMENT


def long_question(connection: pymysql.Connection | EchoConnection, size: int) -> None:
    """Send this many bytes; OSError or an error of MySQL's when they are not accepted."""
    if isinstance(connection, EchoConnection):
        connection.long_question(size)
        return
    with connection.cursor() as cursor:
        cursor.execute(f"DO LENGTH('{'x' * size}')")


def answers_ping(connection: pymysql.Connection | EchoConnection) -> bool:
    """Return whether a ping came back; False if the connection was ended or the answer took too long."""
    try:
        connection.ping(reconnect=False)
    except (pymysql.err.Error, OSError):
        return False
    return True
