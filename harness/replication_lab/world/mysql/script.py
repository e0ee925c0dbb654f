"""Run the statements of a user on a server, one after another; report what is known of one that did not succeed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pymysql

from replication_lab.model.core.errors import LabError
from replication_lab.model.question.sql_text import Statement
from replication_lab.world import clock, signals
from replication_lab.world.mysql.server import Connection, Server, failure, rows_of

END_SECONDS = 2
Rows = list[dict[str, Any]]


def run(
    server: Server,
    found: Sequence[Statement],
    name_of: Callable[[int, Statement], str],
    seconds: float,
    each: Callable[[Statement, Rows], None] = lambda _statement, _rows: None,
    database: str = "lab",
) -> None:
    """Run statements in one session, each within `seconds`; `each` gets the rows of every answered statement.

    `name_of` returns the name of a statement, by its number from 1, for messages.
    Raise LabError for the first that fails, and Stopped if this is interrupted: that ends the running statement.
    """
    done, running = 0, ""
    with server.session(answer_seconds=seconds, database=database) as connection:
        try:
            for number, statement in enumerate(found, 1):
                running = name_of(number, statement)
                rows = rows_of(connection, statement.sql)
                done, running = number, ""
                each(statement, rows)
        except (pymysql.err.MySQLError, OSError) as error:
            failed = failure(server.name, running, error, seconds)
            failed.found += _before(done, len(found))
            raise failed from error
        except KeyboardInterrupt as stop:
            with signals.signals_held():
                said = _ended(server, connection.thread_id(), running) if running else "no statement was running"
            raise signals.Stopped(str(stop), f"{said}{_before(done, len(found))}") from stop


def _before(done: int, all_: int) -> str:
    return f"; statements run before: {done} of {all_}" if all_ > 1 else ""


def _ended(server: Server, thread: int, running: str) -> str:
    """End the statement of a session on the server, and return what became of it, in words."""
    try:
        with server.session(answer_seconds=END_SECONDS, database="") as other:
            with suppress(pymysql.err.MySQLError):
                # An error says that the session has ended.
                rows_of(other, f"KILL QUERY {thread}")
            clock.wait_until(partial(_has_ended, other, thread), f"{running} to end", END_SECONDS)
    except LabError:
        end = f'./lab sql {server.name} -e "KILL {thread}"'
        return f"{running} may still run on {server.name}, and its outcome is unknown; to end it: {end}"
    return f"{running} was ended on {server.name} by KILL QUERY, and its outcome is unknown"


def _has_ended(connection: Connection, thread: int) -> bool:
    running = rows_of(connection, "SHOW PROCESSLIST")
    return all(row["Id"] != thread or row["Command"] != "Query" for row in running)
