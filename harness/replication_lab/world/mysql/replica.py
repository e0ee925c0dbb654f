"""Replication at one server: the state of its threads, and the statements that change it."""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.world.clock import wait_until, wait_while_changing
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.server import Server

# In the state of an applier that waits for its source.
ALL_READ = "has read all relay log"
# How long to wait for an applier: in all, and while what it has left to apply stays the same.
APPLY_SECONDS, STILL_SECONDS = 60, 5
# How long a server waits for a position until its threads are looked at again.
LOOK_SECONDS = 1
OF_GROUP = "group_replication_"


class ReplicaThread(StrEnum):
    """The two threads of a replica."""

    RECEIVER = "receiver"
    APPLIER = "applier"


RECEIVER, APPLIER = ReplicaThread


@dataclass(frozen=True)
class ReplicaStatus:
    """The state of a replica's threads, and the address of its source."""

    connected: bool
    applying: bool
    host: str
    port: int
    error: str
    lag_seconds: int | None
    # The error with which a thread has ended: it does not start again by itself.
    ended: str = ""
    # The number of the applier's error, 0 without one, and the delay with which it applies.
    error_number: int = 0
    delay_seconds: int = 0

    @property
    def healthy(self) -> bool:
        return self.connected and self.applying

    def words(self, missing: int) -> str:
        """Return how far it is behind; `missing` transactions of its source, of which the server knows a part.

        A server says 0 s as long as it has applied all that it received.
        """
        threads = "replicates" if self.healthy else f"does not replicate: {self.error or 'stopped'}"
        lag = "lag unknown" if self.lag_seconds is None else f"{self.lag_seconds} s behind"
        if missing:
            server = "" if self.lag_seconds is None else f" (the server says {self.lag_seconds} s)"
            lag = f"{missing} transactions behind{server}"
        return f"{threads} from {self.host}:{self.port}, {lag}"

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
class Backlog:
    """What a replica has received and not applied: the transactions, why, and the statements that let it apply them.

    A server without GTIDs does not tell which transactions. `moves` tells whether the applier is at work.
    """

    missing: dict[str, gtid.Ranges]
    why: str
    statements: tuple[str, ...] = ()
    moves: bool = False
    # What a node that stays a replica needs once it has applied all.
    afterwards: str = ""

    def __str__(self) -> str:
        state = " received and not applied"
        return self.why + (gtid.words(self.missing, state) if self.missing else f"transactions{state}")

    def remedy(self, server: str) -> str:
        """Return the commands that let the replica apply it; an empty string if none is known."""
        said = "; ".join(f'./lab sql {server} -e "{statement}"' for statement in self.statements)
        back = f' (if it stays a replica, once all is applied: ./lab sql {server} -e "{self.afterwards}")'
        return said + (back if self.afterwards else "")


@dataclass(frozen=True)
class Replica:
    """A server as the replica of another one; it may have no source at the moment."""

    server: Server

    def status(self) -> ReplicaStatus | None:
        """Return the state of this server's replication; None if it has no source."""
        row = self._status_row()
        return self._status_of(row) if row else None

    def _status_of(self, row: dict[str, Any]) -> ReplicaStatus:
        column = self.server.dialect.columns
        threads = ((row[column.sql], row[column.sql_error]), (row[column.io], row[column.io_error]))
        return ReplicaStatus(
            connected=row[column.io] == "Yes",
            applying=row[column.sql] == "Yes",
            host=row[column.host],
            port=int(row[column.port]),
            error=row[column.io_error] or row[column.sql_error] or "",
            lag_seconds=row[column.lag],
            ended=next((error for state, error in threads if state == "No" and error), ""),
            error_number=int(row.get("Last_SQL_Errno") or 0),
            delay_seconds=int(row.get("SQL_Delay") or 0),
        )

    def channels(self) -> dict[str, ReplicaStatus]:
        """Return the state of the replication from each source, by the name of its channel; "" is the usual one."""
        return {name: self._status_of(row) for name, row in self.channel_rows().items()}

    def channel_rows(self) -> dict[str, dict[str, Any]]:
        """Return the row of status of each channel that has a source, by its name."""
        dialect = self.server.dialect
        rows = {
            str(row.get("Connection_name", row.get("Channel_Name", ""))): row
            for row in self.server.rows(dialect.channels or dialect.replica_status)
        }
        # A group's own channels follow its members, and have no source.
        return {name: row for name, row in rows.items() if row[dialect.columns.host] and not name.startswith(OF_GROUP)}

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

    def has_received(self, end: tuple[str, int]) -> bool:
        """Return whether it has received its source's binary log up to this end, (file, place)."""
        found = self.progress()
        return found is not None and found.received >= end

    def _applier(self) -> dict[str, Any]:
        """Return the applier's row of the process list; the receiver's row waits for its source to send."""
        rows = self.server.rows("SELECT * FROM information_schema.PROCESSLIST WHERE USER = 'system user'")
        appliers = [row for row in rows if row["COMMAND"] == "Slave_SQL"]
        others = [row for row in rows if "waiting for" not in (row["STATE"] or "").lower() or "relay" in row["STATE"]]
        return next(iter(appliers or others), {})

    def runs(self, thread: ReplicaThread) -> bool:
        """Return whether a thread runs; the receiver may be waiting for its source."""
        column = self.server.dialect.columns
        return self._status_row().get(column.io if thread is RECEIVER else column.sql, "No") != "No"

    def stop_thread(self, thread: ReplicaThread) -> None:
        """Stop one thread; the other one goes on."""
        dialect = self.server.dialect
        self.server.execute(dialect.stop_io if thread is RECEIVER else dialect.stop_applier)

    def start_thread(self, thread: ReplicaThread) -> None:
        """Start one thread."""
        dialect = self.server.dialect
        self.server.execute(dialect.start_io if thread is RECEIVER else dialect.start_applier)

    def loses_relay_log(self) -> bool:
        """Return whether the start of a thread would delete the relay log."""
        return bool(self.server.dialect.keep_relay_log) and not any(map(self.runs, ReplicaThread))

    def waits_for_delay(self) -> bool:
        """Return whether the applier waits until a transaction is as old as the delay."""
        return self._status_row().get("SQL_Remaining_Delay") is not None

    def received(self) -> str:
        """Return the GTIDs of the whole transactions that the receiver has written to the relay log."""
        return self._received(self._status_row())

    def _received(self, row: dict[str, Any]) -> str:
        dialect = self.server.dialect
        if dialect.counts_parts and self._has_read_all(row):
            # If the connection ended within a transaction, its GTID was received, but its other events were not.
            return ""
        return str(row.get(dialect.columns.received_gtids) or "").replace("\n", "")

    def backlog(self, kept: str = "") -> Backlog | None:
        """Return what was received and is not applied; None if there is nothing.

        `kept` are GTIDs that were received before, and whose relay log may be gone.
        """
        # Read first what was received, so that what is applied meanwhile does not count as missing.
        row = self._status_row()
        received = self._received(row)
        if not self.server.dialect.gtids:
            return None if not row or self._has_read_all(row) else self._explained(row, {})
        dialect = self.server.dialect
        applied = ",".join(str(self.server.value(asked) or "") for asked in (dialect.gtids, dialect.transactions))
        held = gtid.beyond(received, applied)
        missing = gtid.union(held, gtid.beyond(kept, applied))
        # A replica that does not use GTIDs reports none that it receives, so its positions count.
        uncounted = row.get("Using_Gtid") == "No" and not self._has_read_all(row)
        if held or uncounted:
            return self._explained(row, missing)
        if not missing:
            return None
        # A source that answers sends it again.
        column = self.server.dialect.columns
        comes = "Yes" == row.get(column.io) == row.get(column.sql)
        return Backlog(missing, "the relay log was deleted; ", moves=comes)

    def _explained(self, row: dict[str, Any], missing: dict[str, gtid.Ranges]) -> Backlog:
        column, dialect = self.server.dialect.columns, self.server.dialect
        if row[column.sql] == "Yes":
            return Backlog(missing, "still applying: ", moves=True)
        place = {"file": row.get("Relay_Log_File"), "place": row.get("Relay_Log_Pos")}
        keeps = dialect.keep_relay_log if row[column.io] == "No" and row.get("Using_Gtid") != "No" else ""
        first = (keeps.format(**place),) if keeps else ()
        error = row.get(column.sql_error)
        why = f"the applier stopped with the error {error!r}; " if error else "the applier is stopped; "
        return Backlog(missing, why, (*first, dialect.start_applier), afterwards=dialect.use_gtids if keeps else "")

    def _has_read_all(self, row: dict[str, Any]) -> bool:
        column = self.server.dialect.columns
        received = (row.get(column.received_file), row.get(column.received_place))
        applied = (row.get(column.applied_file), row.get(column.applied_place))
        # If the connection ended within a transaction, a part of it was received that will never be applied.
        return received == applied or ALL_READ in (row.get("Slave_SQL_Running_State") or "")

    def settled(self, kept: str = "") -> Backlog | None:
        """Wait until nothing is left to apply, the applier is stopped, or it makes no progress; return what is left.

        It only reads: threads, positions and relay logs stay as they are.
        """

        def look() -> tuple[bool, str]:
            left, place = self.backlog(kept), self._status_row().get(self.server.dialect.columns.applied_place)
            return not left or not left.moves, f"{left} {place}"

        wait_while_changing(look, APPLY_SECONDS, STILL_SECONDS)
        return self.backlog(kept)

    def wait_for(self, position: dict[str, Any], seconds: int = 50) -> None:
        """Wait until this replica has applied everything up to `position`; LabError when it has not after `seconds`.

        A thread that has ended with an error ends the wait at once.
        """
        for past in range(0, max(seconds, 1), LOOK_SECONDS):
            left = min(LOOK_SECONDS, seconds - past)
            answer = self.server.value(self.server.dialect.wait_for_position.format(seconds=left, **position))
            if answer is not None and not self._has_timed_out(int(answer)):
                return
            state = self.status()
            if state and state.ended:
                raise LabError(
                    f"{self.server.name} has stopped replicating: {state.ended}",
                    "every transaction of its source applied",
                    f"./lab sql {self.server.name}",
                )
            if answer is None:
                break
        raise LabError(
            f"{self.server.name} did not catch up within {seconds} s ({state.error if state else 'no source'})",
            "every transaction of its source applied",
            f"./lab status; ./lab sql {self.server.name}",
        )

    def _has_timed_out(self, answer: int) -> bool:
        return answer < 0 or (answer == 1 and "EXECUTED_GTID_SET" in self.server.dialect.wait_for_position)

    def start(self) -> None:
        self.server.execute(self.server.dialect.start)

    def stop(self) -> None:
        self.server.execute(self.server.dialect.stop)

    def replicate_from(self, host: str, port: int) -> None:
        """Apply what was received (CHANGE would drop it), then replicate from another address at that position."""
        self._drain()
        row = self._status_row()
        place = {"file": row.get("Relay_Master_Log_File"), "place": row.get("Exec_Master_Log_Pos")}
        self.server.execute(self.server.dialect.change_source.format(host=host, port=port, **place))
        self.start()
        wait_until(lambda: self._is_connected_to(host), f"{self.server.name} to be connected to {host}", 30)

    def _drain(self) -> None:
        """Apply what was received, then stop; if that is not possible, change nothing and raise LabError."""
        self._refuse_backlog()
        receives = self.runs(RECEIVER)
        self.stop_thread(RECEIVER)
        try:
            # Once more, for what came until the receiver stopped.
            self._refuse_backlog()
        except BaseException:
            # Also after an interruption. Raise the reason why the wait ended, not the loss of the server that followed.
            with suppress(LabError):
                if receives:
                    # MariaDB would delete a relay log that is not applied if both threads are stopped.
                    left = self.backlog()
                    if not left or left.moves or not self.server.dialect.keep_relay_log:
                        self.start_thread(RECEIVER)
            raise
        self.stop()

    def _refuse_backlog(self) -> None:
        if left := self.settled():
            name = self.server.name
            raise LabError(f"{name}: {left}", "all that was received applied", left.remedy(name) or f"./lab sql {name}")

    def stop_following(self, lose: bool = False) -> None:
        """Apply what was received, and stop replicating; with `lose`, discard what is not applied."""
        self.end_replication(lose)
        self.forget()

    def end_replication(self, lose: bool = False) -> None:
        """Do the same, and stay a replica: its threads are stopped."""
        if lose:
            self.stop()
        else:
            self._drain()

    def forget(self) -> None:
        """Be no replica any more."""
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
