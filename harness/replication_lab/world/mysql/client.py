"""A client like that of an application: it knows each transaction's outcome, and reopens a lost connection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import pymysql

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.history import Outcome
from replication_lab.model.lab.mysql_errors import NO_CONNECTION, code_of, conflict, is_definite, is_lost
from replication_lab.world.mysql.server import Server
from replication_lab.world.mysql.tls import TlsConnection

# Longer than a group needs to exclude a silent node, so that a stall ends with the server's error, not a timeout.
ANSWER_SECONDS = 30
# A proxy accepts a connection before it has one to a server, so a login through it has its own limit, as in a pool.
LOGIN_SECONDS = 5


@dataclass(frozen=True)
class TransactionAnswer:
    """The outcome of a transaction for its client; `code` and `text` are those of the error.

    `affected` are the numbers of rows that the server reported, for each statement that it answered, BEGIN included.
    `server` is the one that the connection had reached, if it was asked.
    """

    outcome: Outcome
    code: int | None = None
    text: str = ""
    affected: Sequence[int] = ()
    server: str = ""


class AnsweredBy(NamedTuple):
    """The server at the far end of a connection, ID@HOSTNAME, and the address of its client as the server sees it."""

    server: str
    client: str


WHO = "SELECT CONCAT(@@server_id, '@', @@hostname), SUBSTRING_INDEX(USER(), '@', -1)"


def answered_by(server: Server) -> AnsweredBy:
    """Return which server answers; its connection is closed."""
    try:
        return AnsweredBy(*map(str, server.rows(WHO)[0].values()))
    finally:
        server.close()


@dataclass(frozen=True)
class ClientsOf:
    """Makes the clients of servers that always have the same address, as beside the nodes."""

    servers: Mapping[str, Server]

    def __call__(self, node: str) -> "ApplicationClient":
        server = self.servers[node]
        return ApplicationClient(lambda: server)


class ApplicationClient:
    """One connection to a server, opened when it is needed and again after it was lost.

    `find` returns the server each time: after a restart it may have another port. With `note` each connection is asked
    which server it has reached, which `note` gets and each answer tells.
    """

    def __init__(self, find: Callable[[], Server], note: Callable[[AnsweredBy], object] | None = None):
        self._find, self._note = find, note
        self._connection: TlsConnection | None = None
        self._server = ""

    def transact(self, statements: Sequence[str]) -> TransactionAnswer:
        """Run the statements as one transaction. Its outcome is unknown only if the answer to the commit was lost."""
        try:
            connection = self._connect()
        except LabError as error:
            # No server listened, or a proxy closed the connection. In both cases no statement was sent.
            code = code_of(error.__cause__)
            return TransactionAnswer(Outcome.FAILED, NO_CONNECTION if is_lost(code) else code, error.found)
        steps = statements if len(statements) == 1 else ["BEGIN", *statements, "COMMIT"]
        affected: list[int] = []
        for number, statement in enumerate(steps, 1):
            try:
                # A cursor would double the library's time for an insert.
                affected.append(connection.query(statement))
            except (pymysql.err.MySQLError, OSError) as error:
                failed = self._after(connection, error, is_last=number == len(steps))
                return replace(failed, affected=tuple(affected), server=self._server)
        return TransactionAnswer(Outcome.ACKNOWLEDGED, affected=tuple(affected), server=self._server)

    def look(self, query: str) -> int | None:
        """Return the number that a query finds; None if there was no answer."""
        try:
            with self._connect().cursor() as cursor:
                cursor.execute(query)
                [number] = cursor.fetchone() or []
                return int(number)
        except (LabError, pymysql.err.MySQLError, OSError):
            self.close()
            return None

    def _connect(self) -> pymysql.Connection:
        if self._connection is None:
            seconds = LOGIN_SECONDS if self._note else ANSWER_SECONDS
            self._connection = self._find().connect(database="lab", answer_seconds=seconds)
            if self._note:
                self._identify(self._connection, self._note)
                self._connection.answer_within(ANSWER_SECONDS)
        return self._connection

    def _identify(self, connection: pymysql.Connection, note: Callable[[AnsweredBy], object]) -> None:
        """Ask which server a new connection has reached; LabError if it is lost."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(WHO)
                found = AnsweredBy(*map(str, cursor.fetchone() or ("", "")))
        except (pymysql.err.MySQLError, OSError) as error:
            self.close()
            raise LabError(f"the connection was lost before its first statement: {error}", "a connection") from error
        self._server = found.server
        note(found)

    def _after(self, connection: pymysql.Connection, error: Exception, is_last: bool) -> TransactionAnswer:
        code = code_of(error)
        broken = not is_definite(code)
        if broken:
            self.close()
        else:
            try:
                connection.rollback()
            except (pymysql.err.MySQLError, OSError):
                self.close()
        return TransactionAnswer(Outcome.UNKNOWN if broken and is_last else Outcome.FAILED, code, str(error))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None


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
        kind = conflict(code_of(error))
        if not kind:
            raise
        connection.rollback()
        raise Conflict(kind) from error
