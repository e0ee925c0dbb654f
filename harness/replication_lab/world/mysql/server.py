"""SQL to one server."""

import copy
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymysql

from replication_lab.model import mysql_errors
from replication_lab.model.errors import LabError
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.dialects import Dialect

Connection = pymysql.Connection
Cursor = pymysql.cursors.Cursor
CONNECT_SECONDS, ANSWER_SECONDS = 5, 60


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
        self.passwords, self._user, self._encrypted = passwords, user, encrypted
        self._answer_seconds: float = ANSWER_SECONDS
        self._connection: pymysql.Connection | None = None
        self._lock = threading.RLock()

    def connect(
        self,
        address: tuple[str, int] | None = None,
        database: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> pymysql.Connection:
        """Return a new autocommit connection, by another address (a link's) if one is given; the caller closes it."""
        host, port = address or self.address
        try:
            return self._connected(host, port, database, answer_seconds)
        except (pymysql.err.MySQLError, OSError) as error:
            raise LabError(
                f"{self.name} at {host}:{port} does not answer: {error}", "a connection", "./lab status"
            ) from error

    def _connected(self, host: str, port: int, database: str | None, answer_seconds: float) -> pymysql.Connection:
        return tls.Connection(
            host=host,
            port=port,
            user=self._user,
            password=self.passwords[self._user],
            database=database,
            autocommit=True,
            ssl_disabled=not self._encrypted,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
            write_timeout=answer_seconds,
        )

    def as_application(self) -> "Server":
        """Return the same server for a user without the administrators' rights, which a read-only server refuses.

        It connects without TLS, whose handshake a load of 256 clients on loopback would measure.
        """
        return Server(self.name, self.address, self.dialect, self.passwords, user="lab", encrypted=False)

    def at(self, address: tuple[str, int]) -> "Server":
        """Return the same server by another address, such as that of a link."""
        other = copy.copy(self)
        other.address, other._connection, other._lock = address, None, threading.RLock()
        return other

    def another(self) -> "Server":
        """Return the same server with a connection of its own."""
        return self.at(self.address)

    def within(self, seconds: float) -> "Server":
        """Return the same server with a connection of its own, on which each answer has to come within this time."""
        other = self.another()
        other._answer_seconds = seconds
        return other

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return all rows of an answer, as dictionaries; LabError when the server does not answer or refuses."""
        with self._lock:
            try:
                return self._ask(sql)
            except (pymysql.err.MySQLError, OSError) as error:
                if not mysql_errors.is_lost(mysql_errors.code_of(error)):
                    raise self._refusal(sql, error) from error
                self.close()
            try:
                return self._ask(sql)
            except (pymysql.err.MySQLError, OSError) as error:
                self.close()
                raise self._refusal(sql, error) from error

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        if self._connection is None:
            self._connection = self.connect(answer_seconds=self._answer_seconds)
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _refusal(self, sql: str, error: Exception) -> LabError:
        return LabError(
            f"`{sql[:100]}` on {self.name} failed: {error}",
            "a successful statement",
            f"./lab sql {self.name}; ./lab status",
        )

    def value(self, sql: str) -> Any:
        """Return the first column of the first row, or None."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.rows(statement)

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

    def set_global(self, **settings: str | int) -> None:
        for name, value in settings.items():
            self.execute(f"SET GLOBAL {name} = {value!r}")

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database, as DATABASE.TABLE."""
        return [f"{database}.{next(iter(row.values()))}" for row in self.rows(f"SHOW TABLES FROM {database}")]

    def checksum(self, table: str) -> int | None:
        """Return the server's own checksum of a table's rows."""
        return self.rows(f"CHECKSUM TABLE {table}")[0]["Checksum"]

    @contextmanager
    def session(self, answer_seconds: float = ANSWER_SECONDS) -> Iterator[pymysql.Connection]:
        """Yield a new connection, and close it at the end of the block."""
        connection = self.connect(database="lab", answer_seconds=answer_seconds)
        try:
            yield connection
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._refusal("a session's statement", error) from error
        finally:
            connection.close()
