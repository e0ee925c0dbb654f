"""Replicas that do not receive or apply: a stopped thread, a delay, an applier that met an error."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from replication_lab.faults._servers import REPLICAS, OnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import Setting
from replication_lab.replication import received
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import APPLIER, RECEIVER, Replica, ReplicaThread
from replication_lab.world.mysql.server import Server

SOURCE_SECONDS = 60


class ThreadStop(OnServers):
    """Replicas one of whose threads is stopped; recovery starts it where it ran before and a source is set."""

    thread: ClassVar[ReplicaThread]

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._ran: set[str] = set()
        self.state = f"the {self.thread} is stopped"

    def begin(self, node: str) -> None:
        if self.replica(node).runs(self.thread):
            self._ran.add(node)
            self.replica(node).stop_thread(self.thread)

    def contrary(self, node: str, server: Server) -> str:
        return f"the {self.thread} ran on {node}" if Replica(server).runs(self.thread) else ""

    def end(self, node: str) -> None:
        if self._is_to_run(node):
            start_thread(self.lab, node, self.thread)

    def _is_to_run(self, node: str) -> bool:
        """Return whether the thread ran before; a node that was promoted meanwhile is no replica any more."""
        return node in self._ran and self.replica(node).status() is not None

    def hindrance(self, node: str) -> str:
        return self.state if self._is_to_run(node) and not self.replica(node).runs(self.thread) else ""


@fault(
    "applier-stop",
    does="the replica's applier is stopped; it still receives, and acknowledges",
    proof="the applier is stopped, also between the readings; after recovery: it runs",
    needs=(REPLICAS,),
)
class ApplierStop(ThreadStop):
    """Replicas that receive and acknowledge, and apply nothing."""

    thread = APPLIER


@fault(
    "receiver-stop",
    does="the replica's receiver is stopped: it applies what it has received, and acknowledges nothing more",
    proof="the receiver is stopped, also between the readings; after recovery: it runs",
    needs=(REPLICAS,),
)
class ReceiverStop(ThreadStop):
    """Replicas that apply what they have received, and no more."""

    thread = RECEIVER


def start_thread(lab: Lab, node: str, thread: ReplicaThread) -> None:
    """Start a thread of a replica; LabError if that would delete transactions that no source sends again.

    MariaDB deletes the relay log if a thread starts while both are stopped.
    """
    replica = Replica(lab.node(node).server())
    if replica.loses_relay_log():
        refuse_to_lose_relay_log(lab, node)
    replica.start_thread(thread)


def refuse_to_lose_relay_log(lab: Lab, node: str) -> None:
    """Raise LabError if a replica has received transactions, not applied them, and no source sends them again.

    A source that was started a moment ago is waited for.
    """
    source = lab.topology.sources[node]
    with suppress(LabError):
        clock.wait_until(lambda: received.comes_again(lab, source, node), f"{source} to answer", SOURCE_SECONDS)
        return
    if left := received.settled(lab, node):
        raise LabError(f"{node}: {left}", "all that was received applied", left.remedy(node) or "./lab status")


def _check_delay(where: str, delay: Any) -> None:
    if delay < 1:
        raise DELAY.refusal(where, "applier-delay", delay, "seconds, at least 1")


DELAY = Setting("delay", 0, "the delay {}", _check_delay)


@fault(
    "applier-delay",
    does="the replica applies each transaction `delay` seconds after the source committed it (SOURCE_DELAY)",
    proof="the delay is set and the threads run, also between the readings; after recovery: the applier has waited for "
    "it, and the previous delay is set",
    settings=(DELAY,),
    needs=(REPLICAS,),
)
class ApplierDelay(OnServers):
    """Replicas with a delay; recovery sets the one that they had."""

    def __init__(self, lab: Lab, nodes: Sequence[str], delay: int):
        super().__init__(lab, nodes)
        self._delay, self.state = delay, f"the applier is delayed by {delay:d} s"
        self._had = {node: self._delay_of(self.server(node)) for node in self.nodes}
        self._waited: dict[str, bool] = {}

    @staticmethod
    def _delay_of(server: Server) -> int | None:
        """Return the delay that is set; None on a node without a source."""
        found = Replica(server).status()
        return found.delay_seconds if found else None

    def begin(self, node: str) -> None:
        self._set(node, self._delay)

    def _set(self, node: str, delay: int) -> None:
        server = self.server(node)
        if not server.dialect.delay:
            raise LabError(f"{node} has no delayed replication", "MariaDB 10.2.3 or MySQL 5.6, or later")
        if server.dialect.delay_deletes_relay_log:
            refuse_to_lose_relay_log(self.lab, node)
        server.execute(*(each.format(seconds=delay) for each in server.dialect.delay))

    def contrary(self, node: str, server: Server) -> str:
        found = Replica(server).status()
        if found is None or not found.applying:
            return f"the delay of {node} did not act: its applier was stopped"
        delay = found.delay_seconds
        return "" if delay == self._delay else f"the delay of {node} was {delay:d} s, not {self._delay:d} s"

    def recover(self) -> None:
        # A node that was promoted meanwhile has no delay to wait for; some managers leave it a replica that is stopped.
        following = [node for node in self.nodes if (found := self.replica(node).status()) and found.applying]
        self._waited = {node: self.replica(node).waits_for_delay() for node in following}
        super().recover()

    def end(self, node: str) -> None:
        had = self._had[node]
        # A node that was promoted meanwhile, or that follows another source, has no delay any more.
        if had is not None and self._delay_of(self.server(node)) not in (None, had):
            self._set(node, had)

    def _had_effect(self, node: str) -> Proof | None:
        """Prove that the applier had something to wait for: a delay without transactions shows nothing."""
        if node not in self._waited:
            return None
        found = "a transaction that waited" if self._waited[node] else "none"
        return Proof(
            f"{node} has waited for its delay", found, self._waited[node], expected="a transaction that waited"
        )

    def hindrance(self, node: str) -> str:
        found, had = self._delay_of(self.server(node)), self._had[node]
        return "" if found in (None, had) else f"the delay is {found:d} s, not {had:d} s"


# Can't find record.
NO_SUCH_ROW = 1032
TABLE = "lab.applier_error"
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, changes INT NOT NULL) ENGINE=InnoDB"
# The row has to be replicated as a row: an UPDATE that is replicated as a statement changes none, without an error.
AS_ROWS = "SET SESSION binlog_format = ROW"
# What is done on the replica alone must not become a transaction of its own.
UNLOGGED = "SET SESSION sql_log_bin = 0"
ARRIVES_SECONDS = 60


@fault(
    "applier-error",
    does="a row of the lab's own is deleted on the replica and updated on the source: the applier stops by error 1032",
    proof="the applier is stopped by error 1032, also between the readings; after recovery: it runs without an error",
    needs=(REPLICAS,),
)
class ApplierError(OnServers):
    """Replicas whose applier stops with an error; recovery restores the row and starts the applier."""

    state = f"the applier is stopped by error {NO_SUCH_ROW}"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        """Write the row, and wait until each of the replicas has it."""
        super().__init__(lab, nodes)
        self._source = self.server(lab.topology.source.name)
        self._source.execute(CREATE, f"INSERT IGNORE INTO {TABLE} VALUES (1, 0)")
        self._changes = self._value(self._source)
        for node in self.nodes:
            clock.wait_until(partial(self._has_row, node), f"{node} to have the row", ARRIVES_SECONDS)

    def _has_row(self, node: str) -> bool:
        listed = self.server(node).rows("SHOW TABLES FROM lab LIKE 'applier_error'")
        return bool(listed) and self._value(self.server(node)) == self._changes

    @staticmethod
    def _value(server: Server) -> int | None:
        found: int | None = server.value(f"SELECT changes FROM {TABLE} WHERE id = 1")
        return found

    def inject(self) -> None:
        self.each(lambda node: self._alone(node, f"DELETE FROM {TABLE} WHERE id = 1"))
        self._source.another().execute(AS_ROWS, f"UPDATE {TABLE} SET changes = changes + 1 WHERE id = 1")
        super().inject()

    def _alone(self, node: str, statement: str) -> None:
        self.server(node).another().execute(UNLOGGED, statement)

    def begin(self, node: str) -> None:
        self.wait_for_state(node, f"the applier of {node} to stop", ARRIVES_SECONDS)

    def contrary(self, node: str, server: Server) -> str:
        found = Replica(server).status()
        if found is None or found.applying:
            return f"the applier ran on {node}" if found else f"{node} had no source"
        return "" if found.error_number == NO_SUCH_ROW else f"the applier of {node} was stopped without error 1032"

    def end(self, node: str) -> None:
        self._alone(node, f"INSERT IGNORE INTO {TABLE} VALUES (1, {self._changes})")
        if self.replica(node).status():
            start_thread(self.lab, node, APPLIER)

    def hindrance(self, node: str) -> str:
        found = self.replica(node).status()
        if found is None or (found.applying and not found.error_number):
            return ""
        return f"the applier is stopped by error {found.error_number}"
