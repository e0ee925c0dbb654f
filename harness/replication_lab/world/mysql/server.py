"""SQL to one server, in its own dialect. Everything above speaks of sources and replicas; here it is said."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from replication_lab.model import gtid
from replication_lab.model.errors import LabError
from replication_lab.world.clock import wait_until
from replication_lab.world.echo import EchoConnection

Connection = pymysql.Connection
CONNECT_SECONDS, ANSWER_SECONDS = 5, 60
# The errors by which a server tells one of several writers to try again.
CONFLICTS = {1205: "timeout", 1213: "deadlock"}


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the replica status columns."""

    io: str
    sql: str
    host: str
    port: str
    io_error: str
    sql_error: str
    lag: str
    received_file: str
    received_place: str
    applied_file: str
    applied_place: str


class RedoNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The status variables of the redo log: the byte written last, and the one up to which pages are on the disk."""

    written: str
    checkpoint: str


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of dialects.yaml."""

    semisync_source: str
    semisync_replica: str
    replica_status: str
    columns: Columns
    start: str
    stop: str
    start_io: str
    stop_io: str
    change_source: str
    position: str
    wait_for_position: str
    stop_applier: str
    # Where a server counts transactions, and its redo log; 5.5 does neither.
    transactions: str = ""
    redo: RedoNames | None = None
    acknowledged_in_groups: bool = False
    # Another source than the one that the Compose file names; a server without GTIDs cannot have one.
    gtids: str = ""
    forget: str = ""
    follow: str = ""
    resume: str = ""
    reset: list[str] = []
    begin_at: list[str] = []


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


@dataclass(frozen=True)
class Progress:
    """How far a replica is in its source's log, (file, place) each; what its applier does, and that thread's number."""

    received: tuple[str, int]
    applied: tuple[str, int]
    state: str
    tid: int | None


@dataclass(frozen=True)
class Redo:
    """The redo log: bytes written since the server was made, and those whose pages are not on the disk yet."""

    written: int
    age: int


@dataclass(frozen=True)
class Galera:
    """A cluster as one of its nodes believes it to be; counts are since that node's start, times in ms.

    `view` counts the changes of the cluster's membership. `replication_ms` is (shortest, mean, longest) of what the
    group took to deliver this node's messages lately, or None where it sent none.
    """

    ready: bool
    state: str
    primary: bool
    size: int
    view: int
    history: str
    last_committed: int
    cert_failures: int
    bf_aborts: int
    paused_ms: float
    replication_ms: tuple[float, float, float] | None
    addresses: tuple[str, ...]

    @property
    def synced(self) -> bool:
        return self.ready and self.primary and self.state == "Synced"


class Server:
    """One database server by a published port; connects when first asked, as root unless told otherwise."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        dialect: Dialect,
        password: str,
        user: str = "root",
        encrypted: bool = True,
    ):
        self.name, self.address, self.dialect = name, address, dialect
        self._password, self._user, self._encrypted = password, user, encrypted
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
            ssl_disabled=not self._encrypted,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
            write_timeout=answer_seconds,
        )

    def as_application(self) -> "Server":
        """The same server for a user without the administrators' rights, which a read-only server refuses.

        Not encrypted: the library reads all authorities of the machine into memory for each connection, and a load of
        256 clients on loopback would measure that.
        """
        return Server(self.name, self.address, self.dialect, self._password, user="lab", encrypted=False)

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

    def seconds_ahead(self) -> float:
        """How far this server's time is from this machine's, which every container shares; it tells whole seconds."""
        return float(self.value("SELECT UNIX_TIMESTAMP()")) - time.time()

    def version(self) -> str:
        return str(self.value("SELECT VERSION()"))

    def settings(self, *names: str) -> dict[str, str]:
        """Global variables by name, those that the server does not know left out."""
        listed = ", ".join(f"'{name}'" for name in names)
        found = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
        return {row["Variable_name"].lower(): str(row["Value"]) for row in found}

    def counters(self, *names: str) -> dict[str, int]:
        """Global status counters by name, those that the server does not know left out."""
        listed = ", ".join(f"'{name}'" for name in names)
        rows = self.rows(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
        return {row["Variable_name"]: int(row["Value"]) for row in rows}

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

    # -- Galera ---------------------------------------------------------------------------------------------------

    def galera(self) -> Galera:
        """This node's cluster; LabError where the server is none of a cluster."""
        status = {row["Variable_name"]: row["Value"] for row in self.rows("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")}
        if "wsrep_local_state_comment" not in status:
            raise LabError(f"{self.name} is in no Galera cluster", "a topology like galera", "./lab up galera")
        shortest, mean, longest, _, messages = (float(part) for part in status["wsrep_evs_repl_latency"].split("/"))
        return Galera(
            ready=status["wsrep_ready"] == "ON",
            state=status["wsrep_local_state_comment"],
            primary=status["wsrep_cluster_status"] == "Primary",
            size=int(status["wsrep_cluster_size"]),
            view=int(status["wsrep_cluster_conf_id"]),
            history=status["wsrep_cluster_state_uuid"],
            last_committed=int(status["wsrep_last_committed"]),
            cert_failures=int(status["wsrep_local_cert_failures"]),
            bf_aborts=int(status["wsrep_local_bf_aborts"]),
            paused_ms=int(status["wsrep_flow_control_paused_ns"]) / 1e6,
            replication_ms=(shortest * 1000, mean * 1000, longest * 1000) if messages else None,
            addresses=tuple(part.partition(":")[0] for part in status["wsrep_incoming_addresses"].split(",") if part),
        )

    def wait_for_writesets(self) -> None:
        """Until this node has applied everything that its group had ordered when it was asked."""
        self.execute("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1")

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

    def progress(self) -> Progress | None:
        """How far this replica is, or None where it has no source."""
        rows = self.rows(self.dialect.replica_status)
        if not rows:
            return None
        row, column = rows[0], self.dialect.columns
        applier = self._applier()
        return Progress(
            received=(row[column.received_file], int(row[column.received_place])),
            applied=(row[column.applied_file], int(row[column.applied_place])),
            state=applier.get("STATE") or "not running",
            tid=applier.get("TID"),
        )

    def _applier(self) -> dict[str, Any]:
        """The applier's row of the process list; the receiver's waits for its source to send."""
        rows = self.rows("SELECT * FROM information_schema.PROCESSLIST WHERE USER = 'system user'")
        appliers = [row for row in rows if row["COMMAND"] == "Slave_SQL"]
        others = [row for row in rows if "waiting for" not in (row["STATE"] or "").lower() or "relay" in row["STATE"]]
        return next(iter(appliers or others), {})

    def log_end(self) -> tuple[str, int]:
        """How far this server's own binary log goes: (file, place)."""
        row = self.rows("SHOW BINARY LOGS")[-1]
        return row["Log_name"], int(row["File_size"])

    def start_replica(self) -> None:
        self.execute(self.dialect.start)

    def stop_replica(self) -> None:
        self.execute(self.dialect.stop)

    def stop_applier(self) -> None:
        """Receive, but do not apply."""
        self.execute(self.dialect.stop_applier)

    def transactions(self) -> int:
        """How many transactions this server has committed, or has applied of its source's, by their GTIDs."""
        return gtid.transactions_in(self.value(self.dialect.transactions) or "")

    def redo(self) -> Redo:
        names = self.dialect.redo
        found = self.counters(names.written, names.checkpoint)
        return Redo(found[names.written], found[names.written] - found[names.checkpoint])

    def replicate_from(self, host: str, port: int) -> None:
        """Dial another address from the place reached so far; what was received is applied before (CHANGE drops it)."""
        self._drain()
        row = self.rows(self.dialect.replica_status)[0]
        place = {"file": row.get("Relay_Master_Log_File"), "place": row.get("Exec_Master_Log_Pos")}
        self.execute(self.dialect.change_source.format(host=host, port=port, **place))
        self.start_replica()
        wait_until(lambda: self._is_connected_to(host), f"{self.name} to be connected to {host}", 30)

    def _drain(self) -> None:
        """Apply what was received, then stop; where that does not come, receive again as before."""
        self.execute(self.dialect.stop_io)
        try:
            wait_until(
                self.has_applied_all, f"{self.name} to have applied what it received", 60, hint=f"./lab sql {self.name}"
            )
        except BaseException:
            # Also where somebody would not wait. What ended the wait is told, not that the server is gone as well.
            with suppress(LabError):
                self.execute(self.dialect.start_io)
            raise
        self.stop_replica()

    # -- another source -------------------------------------------------------------------------------------------

    def gtids(self) -> str:
        """The transactions in this server's binary log, its own and those that it applied."""
        return str(self.value(self.dialect.gtids) or "")

    def stop_following(self) -> None:
        """Apply what was received, and follow nobody any more."""
        self._drain()
        self.execute(self.dialect.forget)

    def follow(self, host: str, port: int) -> None:
        """Follow the server at this address from the transactions on that this one has not."""
        self.execute(self.dialect.follow.format(host=host, port=port, password=self._password))
        self.start_replica()
        wait_until(lambda: self._is_connected_to(host), f"{self.name} to be connected to {host}:{port}", 30)

    def resume(self) -> None:
        """Let a server that has followed nobody go on where its own binary log ends."""
        if self.dialect.resume:
            self.execute(self.dialect.resume)

    def begin_at(self, gtids: str) -> None:
        """Forget the binary log: this server's data are those of another one at these GTIDs."""
        for number, statement in enumerate(self.dialect.reset, 1):
            try:
                self.execute(statement)
                break
            except LabError:
                # Versions spell it in two ways.
                if number == len(self.dialect.reset):
                    raise
        self.execute(*(statement.format(gtids=gtids) for statement in self.dialect.begin_at))

    def acknowledge(self) -> None:
        """The replica's side of semi-sync, from its next connection on."""
        self.execute(f"SET GLOBAL {self.dialect.semisync_replica}_enabled = 1")

    def has_applied_all(self) -> bool:
        """Whether the applier has done everything that the IO thread received (dialects differ in how they say so)."""
        row = self.rows(self.dialect.replica_status)[0]
        if "Retrieved_Gtid_Set" in row and self.dialect is dialects()["mysql"]:
            received, done = row["Retrieved_Gtid_Set"], row["Executed_Gtid_Set"]
            return bool(self.value(f"SELECT GTID_SUBSET('{received}', '{done}')"))
        received = (row["Master_Log_File"], row["Read_Master_Log_Pos"])
        applied = (row["Relay_Master_Log_File"], row["Exec_Master_Log_Pos"])
        # Of a transaction that was cut off in the middle there is something received that will never be applied.
        return received == applied or "has read all relay log" in (row.get("Slave_SQL_Running_State") or "")

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


class Conflict(Exception):
    """A transaction that lost against another one and was rolled back; `kind` is deadlock or timeout."""

    def __init__(self, kind: str):
        super().__init__(kind)
        self.kind = kind


@contextmanager
def transaction(connection: pymysql.Connection) -> Iterator[pymysql.cursors.Cursor]:
    """A transaction, committed at the end of the block; Conflict, and nothing left of it, where it lost."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            yield cursor
            cursor.execute("COMMIT")
    except pymysql.err.MySQLError as error:
        if error.args[0] not in CONFLICTS:
            raise
        connection.rollback()
        raise Conflict(CONFLICTS[error.args[0]]) from error


def long_answer(connection: pymysql.Connection | EchoConnection, size: int) -> None:
    """Have so many bytes come back; OSError or an error of MySQL's when they do not."""
    if isinstance(connection, EchoConnection):
        connection.long_answer(size)
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT REPEAT('x', {size})")
        cursor.fetchall()


def answers_ping(connection: pymysql.Connection | EchoConnection) -> bool:
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
