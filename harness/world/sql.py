"""SQL to one server, in its own dialect. Everything above speaks of sources and replicas; here it is said."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from harness.errors import LabError
from harness.world.clock import wait_until

CONNECT_SECONDS, ANSWER_SECONDS = 5, 60


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the replica status columns."""

    io: str
    sql: str
    host: str
    port: str
    io_error: str
    sql_error: str
    lag: str


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of dialects.yaml."""

    semisync_source: str
    semisync_replica: str
    replica_status: str
    columns: Columns
    start: str
    stop: str
    stop_io: str
    change_source: str
    position: str
    wait_for_position: str
    acknowledged_in_groups: bool = False


@cache
def dialects() -> dict[str, Dialect]:
    return msgspec.yaml.decode((Path(__file__).parent / "dialects.yaml").read_bytes(), type=dict[str, Dialect])


@dataclass(frozen=True)
class SemiSync:
    """A source's semi-sync as it says it is."""

    enabled: bool
    active: bool
    replicas: int
    acknowledged: int
    unacknowledged: int
    fallbacks: int
    wait_point: str | None
    timeout_ms: int


@dataclass(frozen=True)
class Replication:
    """A replica's threads as it says they are, and where it dials."""

    connected: bool
    applying: bool
    host: str
    port: int
    error: str
    lag_seconds: int | None

    @property
    def healthy(self) -> bool:
        return self.connected and self.applying


class Server:
    """One database server by a published port; connects when first asked, as root unless told otherwise."""

    def __init__(self, name: str, address: tuple[str, int], dialect: Dialect, password: str, user: str = "root"):
        self.name, self.address, self.dialect = name, address, dialect
        self._password, self._user = password, user
        self._connection: pymysql.Connection | None = None
        self._lock = threading.RLock()

    def connect(
        self,
        address: tuple[str, int] | None = None,
        database: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> pymysql.Connection:
        """A new autocommit connection, by another address (a link's, say) if one is given; the caller closes it."""
        host, port = address or self.address
        try:
            return self._connected(host, port, database, answer_seconds)
        except (pymysql.err.MySQLError, OSError) as error:
            raise LabError(
                f"{self.name} at {host}:{port} does not answer: {error}", "a connection", "./lab status"
            ) from error

    def _connected(self, host: str, port: int, database: str | None, answer_seconds: float) -> pymysql.Connection:
        return pymysql.connect(
            host=host,
            port=port,
            user=self._user,
            password=self._password,
            database=database,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
            write_timeout=answer_seconds,
        )

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """All rows of an answer, as dictionaries; LabError when the server does not answer or refuses."""
        with self._lock:
            try:
                return self._ask(sql)
            except (pymysql.err.MySQLError, OSError) as error:
                if not _is_lost(error):
                    raise self._refusal(sql, error) from error
                self.close()
            try:
                return self._ask(sql)
            except (pymysql.err.MySQLError, OSError) as error:
                self.close()
                raise self._refusal(sql, error) from error

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        if self._connection is None:
            self._connection = self.connect()
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _refusal(self, sql: str, error: Exception) -> LabError:
        return LabError(
            f"{self.name} answered `{sql[:100]}` with {error}", "rows", f"./lab sql {self.name}; ./lab status"
        )

    def value(self, sql: str) -> Any:
        """The first column of the first row, or None."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.rows(statement)

    def version(self) -> str:
        return str(self.value("SELECT VERSION()"))

    def settings(self, *names: str) -> dict[str, str]:
        """Global variables by name, those that the server does not know left out."""
        listed = ", ".join(f"'{name}'" for name in names)
        found = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
        return {row["Variable_name"].lower(): str(row["Value"]) for row in found}

    def set_global(self, **settings: str | int) -> None:
        for name, value in settings.items():
            self.execute(f"SET GLOBAL {name} = {value!r}")

    def tables(self, database: str) -> list[str]:
        """The tables of a database, as DATABASE.TABLE."""
        return [f"{database}.{next(iter(row.values()))}" for row in self.rows(f"SHOW TABLES FROM {database}")]

    def checksum(self, table: str) -> int | None:
        """The server's own checksum of a table's rows."""
        return self.rows(f"CHECKSUM TABLE {table}")[0]["Checksum"]

    # -- semi-sync ------------------------------------------------------------------------------------------------

    def semisync(self) -> SemiSync:
        prefix = self.dialect.semisync_source
        status = {
            row["Variable_name"].lower(): row["Value"] for row in self.rows(f"SHOW GLOBAL STATUS LIKE '{prefix}%'")
        }
        variables = {
            row["Variable_name"].lower(): row["Value"] for row in self.rows(f"SHOW GLOBAL VARIABLES LIKE '{prefix}%'")
        }
        return SemiSync(
            enabled=variables.get(f"{prefix}_enabled") == "ON",
            active=status.get(f"{prefix}_status") == "ON",
            replicas=int(status.get(f"{prefix}_clients", 0)),
            acknowledged=int(status.get(f"{prefix}_yes_tx", 0)),
            unacknowledged=int(status.get(f"{prefix}_no_tx", 0)),
            fallbacks=int(status.get(f"{prefix}_no_times", 0)),
            wait_point=variables.get(f"{prefix}_wait_point"),
            timeout_ms=int(variables.get(f"{prefix}_timeout", 0)),
        )

    def set_semisync(self, enabled: bool, wait_point: str | None = None, timeout_ms: int | None = None) -> None:
        """The source's side of semi-sync; `wait_point` is AFTER_SYNC or AFTER_COMMIT where there is a choice."""
        prefix = self.dialect.semisync_source
        if wait_point:
            self.execute(f"SET GLOBAL {prefix}_wait_point = '{wait_point}'")
        if timeout_ms:
            self.execute(f"SET GLOBAL {prefix}_timeout = {timeout_ms}")
        self.execute(f"SET GLOBAL {prefix}_enabled = {int(enabled)}")

    # -- replication ----------------------------------------------------------------------------------------------

    def replication(self) -> Replication | None:
        """The state of this server's replication, or None where it has no source."""
        rows = self.rows(self.dialect.replica_status)
        if not rows:
            return None
        row, column = rows[0], self.dialect.columns
        return Replication(
            connected=row[column.io] == "Yes",
            applying=row[column.sql] == "Yes",
            host=row[column.host],
            port=int(row[column.port]),
            error=row[column.io_error] or row[column.sql_error] or "",
            lag_seconds=row[column.lag],
        )

    def start_replica(self) -> None:
        self.execute(self.dialect.start)

    def stop_replica(self) -> None:
        self.execute(self.dialect.stop)

    def replicate_from(self, host: str, port: int) -> None:
        """Dial another address from the place reached so far; what was received is applied before (CHANGE drops it)."""
        self.execute(self.dialect.stop_io)
        wait_until(
            self.has_applied_all, f"{self.name} to have applied what it received", 60, hint=f"./lab sql {self.name}"
        )
        self.stop_replica()
        row = self.rows(self.dialect.replica_status)[0]
        place = {"file": row.get("Relay_Master_Log_File"), "place": row.get("Exec_Master_Log_Pos")}
        self.execute(self.dialect.change_source.format(host=host, port=port, **place))
        self.start_replica()
        wait_until(lambda: self._is_connected_to(host), f"{self.name} to be connected to {host}", 30)

    def has_applied_all(self) -> bool:
        """Whether the applier has done everything that the IO thread received (dialects differ in how they say so)."""
        row = self.rows(self.dialect.replica_status)[0]
        if "Retrieved_Gtid_Set" in row and self.dialect is dialects()["mysql"]:
            received, done = row["Retrieved_Gtid_Set"], row["Executed_Gtid_Set"]
            return bool(self.value(f"SELECT GTID_SUBSET('{received}', '{done}')"))
        return (row["Master_Log_File"], row["Read_Master_Log_Pos"]) == (
            row["Relay_Master_Log_File"],
            row["Exec_Master_Log_Pos"],
        )

    def _is_connected_to(self, host: str) -> bool:
        found = self.replication()
        return found is not None and found.connected and found.host == host

    def position(self) -> dict[str, Any]:
        """How far this server's own binary log goes: {position} with GTIDs, {file, place} without."""
        row = self.rows(self.dialect.position)[0]
        if "File" in row:
            return {"file": row["File"], "place": row["Position"]}
        return {"position": next(iter(row.values())).replace("\n", "")}

    def wait_for(self, position: dict[str, Any], seconds: int = 50) -> None:
        """Until this replica has applied everything up to `position`; LabError when it has not after `seconds`."""
        answer = self.value(self.dialect.wait_for_position.format(seconds=seconds, **position))
        if (
            answer is None
            or int(answer) < 0
            or (int(answer) == 1 and "EXECUTED_GTID_SET" in self.dialect.wait_for_position)
        ):
            state = self.replication()
            raise LabError(
                f"{self.name} did not catch up within {seconds} s ({state.error if state else 'no source'})",
                "every row of its source",
                f"./lab status; ./lab sql {self.name}",
            )

    @contextmanager
    def session(self, database: str = "lab") -> Iterator[pymysql.Connection]:
        """A connection of its own, closed at the end."""
        connection = self.connect(database=database)
        try:
            yield connection
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._refusal("a session's statement", error) from error
        finally:
            connection.close()


def answers_ping(connection: pymysql.Connection) -> bool:
    """Whether a ping came back; no when the connection was ended or the answer took too long."""
    try:
        connection.ping(reconnect=False)
    except (pymysql.err.Error, OSError):
        return False
    return True


def _is_lost(error: Exception) -> bool:
    """Whether a connection was lost (2006, 2013, 2014 …) rather than a statement refused."""
    code = error.args[0] if error.args else 0
    return not isinstance(code, int) or code == 0 or 2000 <= code < 3000
