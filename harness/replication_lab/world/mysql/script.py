"""Run the statements of a file one after another on a server."""

from collections.abc import Iterable

import pymysql

from replication_lab.model.errors import LabError
from replication_lab.model.sql_text import Statement
from replication_lab.world.mysql.server import Server

# One statement may fill or index a large table.
ANSWER_SECONDS = 600


def run(server: Server, file: str, statements: Iterable[Statement]) -> None:
    """Run the statements in one session in the database lab. Raise LabError with the line of one that failed."""
    with server.session(answer_seconds=ANSWER_SECONDS) as connection, connection.cursor() as cursor:
        for statement in statements:
            try:
                cursor.execute(statement.sql)
            except pymysql.err.MySQLError as error:
                raise LabError(
                    f"{file} line {statement.line}: {server.name} refused `{statement.sql[:60]}`: {error}",
                    "a statement that the server accepts",
                    f"correct {file}",
                ) from error
