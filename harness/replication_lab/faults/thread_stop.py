"""A replica one of whose threads is stopped, as by STOP REPLICA SQL_THREAD or IO_THREAD."""

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from replication_lab.faults._servers import REPLICAS, OnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import NODES
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
    acts_on=NODES,
    does="the replica's applier is stopped; it still receives, and acknowledges",
    proof="the applier is stopped, also between the readings; after recovery: it runs",
    needs=(REPLICAS,),
)
class ApplierStop(ThreadStop):
    """Replicas that receive and acknowledge, and apply nothing."""

    thread = APPLIER


@fault(
    "receiver-stop",
    acts_on=NODES,
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
