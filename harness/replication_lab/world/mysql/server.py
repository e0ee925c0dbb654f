"""SQL to one server."""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pymysql

from replication_lab.model.core.errors import LabError, OutcomeUnknown, as_lab_error
from replication_lab.model.core.variable import is_same, literal
from replication_lab.model.lab import mysql_errors
from replication_lab.model.question.sql_text import only_reads
from replication_lab.world import requests_made
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.dialects import Dialect
from replication_lab.world.requests_made import CONTROLS_REPLICATION

Connection = pymysql.Connection
Cursor = pymysql.cursors.Cursor
CONNECT_SECONDS, ANSWER_SECONDS = 5, 60
# A connection that was not used for longer is checked before the next statement: the server may have been restarted.
IDLE_SECONDS = 0.5
CONTROLS = re.compile(r"\s*(STOP|CHANGE|RESET)\b", re.IGNORECASE)
SYSTEM_DATABASES = ("mysql", "information_schema", "performance_schema", "sys")


class NotKept(LabError):
    """A server accepted a value of a variable, and changed it."""


class Server:
    """One database server by a published port; it connects on the first query, as root by default.

    `passwords` has those of the accounts that are known there, by user.
    """

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        dialect: Dialect,
        passwords: Mapping[str, str],
        *,
        user: str = "root",
        encrypted: bool = True,
    ):
        self.name, self.address, self.dialect = name, address, dialect
        # The node's own address: that of a copy can be a link's.
        self.home = address
        self.passwords, self._user, self._encrypted = passwords, user, encrypted
        self._answer_seconds: float = ANSWER_SECONDS
        self._until: float | None = None
        self._connection: tls.TlsConnection | None = None
        self._answered = 0.0
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the same server for another process: with its own connection, and the password of its user only."""
        password = {self._user: self.passwords[self._user]}
        make = partial(Server, user=self._user, encrypted=self._encrypted)
        return make, (self.name, self.address, self.dialect, password)

    def connect(
        self,
        address: tuple[str, int] | None = None,
        database: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        until: float | None = None,
    ) -> tls.TlsConnection:
        """Return a new autocommit connection, by another address (a link's) if one is given; the caller closes it."""
        host, port = address or self.address
        with as_lab_error(
            (pymysql.err.MySQLError, OSError),
            f"{self.name} at {host}:{port} does not answer",
            "a connection",
            "./lab status",
        ):
            opened = tls.TlsConnection(
                until=until,
                host=host,
                port=port,
                user=self._user,
                password=self.passwords[self._user],
                database=database,
                autocommit=True,
                ssl_disabled=not self._encrypted,
                connect_timeout=min(CONNECT_SECONDS, answer_seconds),
                read_timeout=answer_seconds,
                write_timeout=answer_seconds,
            )
            requests_made.note_session(self.home, opened.thread_id())
            return opened

    def as_application(self) -> "Server":
        """Return the same server for a user without the administrators' rights, which a read-only server refuses.

        It connects without TLS, whose handshake a load of 256 clients on loopback would measure.
        """
        return Server(self.name, self.address, self.dialect, self.passwords, user="lab", encrypted=False)

    def at(self, address: tuple[str, int]) -> "Server":
        """Return the same server by another address, such as that of a link."""
        # With all that is known of it, which `__reduce__` does not hand out.
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, address=address, _connection=None, _lock=threading.RLock())
        return other

    def another(self) -> "Server":
        """Return the same server with a connection of its own."""
        return self.at(self.address)

    def within(self, seconds: float) -> "Server":
        """Return the same server with a connection of its own; all answers have to come within this time from now."""
        other = self.another()
        other._answer_seconds, other._until = seconds, time.monotonic() + seconds
        return other

    def answering_within(self, seconds: float) -> "Server":
        """Return the same server with a connection of its own; each answer has to come within this time."""
        other = self.another()
        other._answer_seconds = seconds
        return other

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def run(self, sql: str) -> list[dict[str, Any]]:
        """Send a statement once, and return all rows of its answer as dictionaries.

        Raise LabError when the server does not answer or refuses; OutcomeUnknown if it may have had its effect.
        """
        with self._lock:
            if self._connection is not None:
                # The server may have ended it: before a statement is sent on it, that has no effect. A reader with less
                # patience than that of a ping does not ask first: of a frozen server it would wait too long.
                asks = self._answer_seconds > CONNECT_SECONDS or not only_reads(sql)
                idle = time.monotonic() - self._answered > IDLE_SECONDS
                if asks and (idle or self._connection.has_news()) and not self._connection.answers(CONNECT_SECONDS):
                    self.close()
            if self._connection is None:
                seconds = self._answer_seconds if self._until is None else tls.seconds_until(self._until)
                self._connection = self.connect(answer_seconds=seconds, until=self._until)
            connection = self._connection
            controls = requests_made.noted(CONTROLS_REPLICATION, self.name) if CONTROLS.match(sql) else nullcontext()
            try:
                with controls:
                    rows = rows_of(connection, sql)
            except (pymysql.err.MySQLError, OSError) as error:
                if mysql_errors.is_lost(mysql_errors.code_of(error)):
                    self.close()
                raise failure(self.name, f"`{sql[:100]}`", error, self._answer_seconds) from error
            self._answered = time.monotonic()
            return rows

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Do the same for a statement of the lab's own; if its connection is lost and it only reads, send it again."""
        try:
            return self.run(sql)
        except OutcomeUnknown as error:
            if not only_reads(sql) or mysql_errors.is_timeout(error.__cause__):
                raise
        return self.run(sql)

    def value(self, sql: str) -> Any:
        """Return the first column of the first row, or None."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.run(statement)

    def seconds_ahead(self) -> float:
        """Return the seconds by which this server's clock, which counts whole ones, is ahead of this machine's."""
        return float(self.value("SELECT UNIX_TIMESTAMP()")) - time.time()

    def version(self) -> str:
        return str(self.value("SELECT VERSION()"))

    def settings(self, *names: str) -> dict[str, str]:
        """Return global variables by name, without those that the server does not have."""
        listed = ", ".join(f"'{name}'" for name in names)
        found = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
        return {row["Variable_name"].lower(): str(row["Value"]) for row in found}

    def changed_settings(self) -> dict[str, str]:
        """Return the global variables that were set, not left at the default; empty for a server that does not tell."""
        if not self.dialect.changed:
            return {}
        return {row["name"]: str(row["value"]) for row in self.rows(self.dialect.changed)}

    def counters(self, *names: str) -> dict[str, int]:
        """Return global status counters by name, without those that the server does not have."""
        listed = ", ".join(f"'{name}'" for name in names)
        rows = self.rows(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
        return {row["Variable_name"]: int(row["Value"]) for row in rows}

    def global_values(self, *names: str) -> dict[str, str]:
        """Return global variables by name; LabError if the server does not have one."""
        (row,) = self.rows(f"SELECT {', '.join(f'@@GLOBAL.{name} AS `{name}`' for name in names)}")
        return {name: str(value) for name, value in row.items()}

    def set_global(self, **settings: str | int) -> None:
        """Set global variables in their order; LabError for a value that the server refuses or changes.

        Witnesses expect these values from now on.
        """
        for name, value in settings.items():
            asked = str(value)
            requests_made.forget_setting(self.address, name)
            self.execute(f"SET GLOBAL {name} = {literal(asked)}")
            found = self.global_values(name)[name]
            if not is_same(asked, found):
                raise NotKept(
                    f"{self.name} changed {name}={asked} to {found}", "a value that the server keeps unchanged"
                )
            requests_made.note_setting(self.address, name, asked)

    def tables(self, engine: str = "") -> list[str]:
        """Return the tables of all databases but the system's, without views, as `DATABASE`.`TABLE` with these quotes.

        With `engine` only those of this storage engine.
        """
        only = f"AND ENGINE = '{engine}' " if engine else ""
        found = self.rows(
            "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') AS name FROM information_schema.TABLES "
            f"WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') {only}"
            f"AND TABLE_SCHEMA NOT IN {SYSTEM_DATABASES} ORDER BY 1"
        )
        return [row["name"] for row in found]

    def checksum(self, table: str) -> int | None:
        """Return the server's own checksum of a table's rows."""
        return self.rows(f"CHECKSUM TABLE {table}")[0]["Checksum"]

    def stored_programs(self) -> list[str]:
        """Return the texts by which the server may change rows of its own accord: of triggers, routines and events.

        For each foreign key that deletes rows, the name of their table.
        """
        found = self.rows(
            f"SELECT ACTION_STATEMENT AS text FROM information_schema.TRIGGERS "
            f"WHERE TRIGGER_SCHEMA NOT IN {SYSTEM_DATABASES} UNION ALL "
            f"SELECT ROUTINE_DEFINITION FROM information_schema.ROUTINES "
            f"WHERE ROUTINE_SCHEMA NOT IN {SYSTEM_DATABASES} UNION ALL "
            "SELECT EVENT_DEFINITION FROM information_schema.EVENTS UNION ALL "
            "SELECT TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE DELETE_RULE = 'CASCADE'"
        )
        return [row["text"] or "" for row in found]

    @contextmanager
    def session(self, answer_seconds: float = ANSWER_SECONDS, database: str = "lab") -> Iterator[pymysql.Connection]:
        """Yield a new connection, and close it at the end of the block."""
        connection = self.connect(database=database or None, answer_seconds=answer_seconds)
        try:
            yield connection
        except (pymysql.err.MySQLError, OSError) as error:
            raise failure(self.name, "a session's statement", error, answer_seconds) from error
        finally:
            connection.close()


def rows_of(connection: pymysql.Connection, sql: str) -> list[dict[str, Any]]:
    """Send a statement on a connection, and return all rows of its answer as dictionaries; an error is pymysql's."""
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def plain(table: str) -> str:
    """Return the name of a table without quotes, as people and records have it."""
    return table.replace("`", "")


def failure(server: str, statement: str, error: Exception, seconds: float = ANSWER_SECONDS) -> LabError:
    """Return the error for a statement that failed on a server: OutcomeUnknown unless it certainly had no effect."""
    if mysql_errors.is_timeout(error):
        return OutcomeUnknown(
            f"no answer from {server} within {seconds:g} s to {statement}; it may still run there",
            "an answer",
            f'./lab sql {server} -e "SHOW PROCESSLIST", which lists the statements that run',
        )
    if not mysql_errors.is_definite(mysql_errors.code_of(error)):
        return OutcomeUnknown(
            f"{statement} was sent to {server}, and its outcome is unknown: {error}",
            "an answer",
            f"look for its effect before you send it again: ./lab sql {server}; ./lab status",
        )
    return LabError(
        f"{statement} on {server} failed: {error}",
        "a successful statement",
        f"./lab sql {server}; ./lab status",
    )
