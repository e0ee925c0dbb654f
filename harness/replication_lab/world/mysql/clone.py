"""Copy a server's databases to another one by SQL, with their position in the binary log."""

from collections.abc import Iterator
from typing import Any

import pymysql

from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.server import Connection, Server

SYSTEM = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
ROWS_AT_A_TIME = 1000


def clone(source: Server, target: Server) -> str:
    """Replace the databases of `target` by those of `source` and return the copy's GTIDs; writers on `source` wait."""
    with source.session() as reader, target.session() as writer:
        _execute(reader, "FLUSH TABLES WITH READ LOCK")
        gtids = BinaryLog(source).gtids()
        _execute(writer, "SET SESSION sql_log_bin = 0", "SET SESSION foreign_key_checks = 0")
        for database in _databases(writer):
            _execute(writer, f"DROP DATABASE `{database}`")
        for database in _databases(reader):
            _execute(writer, f"CREATE DATABASE `{database}`")
            for table in _column(reader, f"SHOW TABLES FROM `{database}`"):
                _copy_table(reader, writer, f"`{database}`.`{table}`", database)
        _execute(reader, "UNLOCK TABLES")
    return gtids


def _databases(connection: Connection) -> list[str]:
    return [name for name in _column(connection, "SHOW DATABASES") if name not in SYSTEM]


def _copy_table(reader: Connection, writer: Connection, table: str, database: str) -> None:
    statement = _rows(reader, f"SHOW CREATE TABLE {table}")[0][1]
    _execute(writer, f"USE `{database}`", statement)
    for rows in _batches(reader, table):
        places = ", ".join(["%s"] * len(rows[0]))
        with writer.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def _batches(reader: Connection, table: str) -> Iterator[list[tuple]]:
    with reader.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        while rows := cursor.fetchmany(ROWS_AT_A_TIME):
            yield list(rows)


def _execute(connection: Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _rows(connection: Connection, statement: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _column(connection: Connection, statement: str) -> list[Any]:
    return [row[0] for row in _rows(connection, statement)]
