"""Replication at one server: the state of its threads, and the statements that change it."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from replication_lab.model.errors import LabError
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server

# In the state of an applier that waits for its source.
ALL_READ = "has read all relay log"


@dataclass(frozen=True)
class ReplicaStatus:
    """The state of a replica's threads, and the address of its source."""

    connected: bool
    applying: bool
    host: str
    port: int
    error: str
    lag_seconds: int | None

    @property
    def healthy(self) -> bool:
        return self.connected and self.applying

    @property
    def threads(self) -> str:
        """Return the state of both threads in words."""
        io, sql = ("runs" if runs else "stopped" for runs in (self.connected, self.applying))
        return f"IO thread {io}, SQL thread {sql}"


@dataclass(frozen=True)
class Progress:
    """A replica's positions in its source's log, each (file, place); its applier's state, and that thread's number."""

    received: tuple[str, int]
    applied: tuple[str, int]
    state: str
    tid: int | None

    @property
    def behind(self) -> bool:
        """Whether the applier has work: a part of a transaction that is still arriving is received, and no work yet."""
        return self.applied < self.received and ALL_READ not in self.state


@dataclass(frozen=True)
class Replica:
    """A server as the replica of another one; it may have no source at the moment."""

    server: Server

    def status(self) -> ReplicaStatus | None:
        """Return the state of this server's replication; None if it has no source."""
        row, column = self._status_row(), self.server.dialect.columns
        if not row:
            return None
        return ReplicaStatus(
            connected=row[column.io] == "Yes",
            applying=row[column.sql] == "Yes",
            host=row[column.host],
            port=int(row[column.port]),
            error=row[column.io_error] or row[column.sql_error] or "",
            lag_seconds=row[column.lag],
        )

    def relay_log(self) -> str:
        """Return the name of the file that the applier reads; an empty string if the server has no source."""
        return str(self._status_row().get("Relay_Log_File", ""))

    def _status_row(self) -> dict[str, Any]:
        return next(iter(self.server.rows(self.server.dialect.replica_status)), {})

    def progress(self) -> Progress | None:
        """Return how far this replica is; None if it has no source."""
        row, column = self._status_row(), self.server.dialect.columns
        if not row:
            return None
        applier = self._applier()
        return Progress(
            received=(row[column.received_file], int(row[column.received_place])),
            applied=(row[column.applied_file], int(row[column.applied_place])),
            state=applier.get("STATE") or "not running",
            tid=applier.get("TID"),
        )

    def _applier(self) -> dict[str, Any]:
        """Return the applier's row of the process list; the receiver's row waits for its source to send."""
        rows = self.server.rows("SELECT * FROM information_schema.PROCESSLIST WHERE USER = 'system user'")
        appliers = [row for row in rows if row["COMMAND"] == "Slave_SQL"]
        others = [row for row in rows if "waiting for" not in (row["STATE"] or "").lower() or "relay" in row["STATE"]]
        return next(iter(appliers or others), {})

    def has_applied_all(self) -> bool:
        """Return whether the applier has applied all that the IO thread received (dialects differ in reporting it)."""
        row = self._status_row()
        if "Retrieved_Gtid_Set" in row and self.server.dialect is dialects()["mysql"]:
            received, done = row["Retrieved_Gtid_Set"], row["Executed_Gtid_Set"]
            return bool(self.server.value(f"SELECT GTID_SUBSET('{received}', '{done}')"))
        received = (row["Master_Log_File"], row["Read_Master_Log_Pos"])
        applied = (row["Relay_Master_Log_File"], row["Exec_Master_Log_Pos"])
        # If the connection ended within a transaction, a part of it was received that will never be applied.
        return received == applied or ALL_READ in (row.get("Slave_SQL_Running_State") or "")

    def wait_for(self, position: dict[str, Any], seconds: int = 50) -> None:
        """Wait until this replica has applied everything up to `position`; LabError when it has not after `seconds`."""
        answer = self.server.value(self.server.dialect.wait_for_position.format(seconds=seconds, **position))
        if (
            answer is None
            or int(answer) < 0
            or (int(answer) == 1 and "EXECUTED_GTID_SET" in self.server.dialect.wait_for_position)
        ):
            state = self.status()
            raise LabError(
                f"{self.server.name} did not catch up within {seconds} s ({state.error if state else 'no source'})",
                "every transaction of its source applied",
                f"./lab status; ./lab sql {self.server.name}",
            )

    def start(self) -> None:
        self.server.execute(self.server.dialect.start)

    def stop(self) -> None:
        self.server.execute(self.server.dialect.stop)

    def stop_applier(self) -> None:
        """Stop applying and keep receiving."""
        self.server.execute(self.server.dialect.stop_applier)

    def replicate_from(self, host: str, port: int) -> None:
        """Apply what was received (CHANGE would drop it), then replicate from another address at that position."""
        self._drain()
        row = self._status_row()
        place = {"file": row.get("Relay_Master_Log_File"), "place": row.get("Exec_Master_Log_Pos")}
        self.server.execute(self.server.dialect.change_source.format(host=host, port=port, **place))
        self.start()
        wait_until(lambda: self._is_connected_to(host), f"{self.server.name} to be connected to {host}", 30)

    def _drain(self) -> None:
        """Apply what was received, then stop; if that does not finish, receive again as before."""
        self.server.execute(self.server.dialect.stop_io)
        name = self.server.name
        try:
            wait_until(self.has_applied_all, f"{name} to have applied what it received", 60, hint=f"./lab sql {name}")
        except BaseException:
            # Also after an interruption. Raise the reason why the wait ended, not the loss of the server that followed.
            with suppress(LabError):
                self.server.execute(self.server.dialect.start_io)
            raise
        self.stop()

    def stop_following(self) -> None:
        """Apply what was received, and replicate from no source any more."""
        self._drain()
        self.server.execute(self.server.dialect.forget)

    def follow(self, host: str, port: int) -> None:
        """Replicate all transactions that this server lacks from the server at this address."""
        password = self.server.passwords["replicator"]
        self.server.execute(self.server.dialect.follow.format(host=host, port=port, password=password))
        self.start()
        wait_until(lambda: self._is_connected_to(host), f"{self.server.name} to be connected to {host}:{port}", 30)

    def resume(self) -> None:
        """Let a server without a source continue at the end of its own binary log."""
        if self.server.dialect.resume:
            self.server.execute(self.server.dialect.resume)

    def _is_connected_to(self, host: str) -> bool:
        found = self.status()
        return found is not None and found.connected and found.host == host
