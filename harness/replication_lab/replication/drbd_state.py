"""A replicated disk in another state than its file says: options, a disconnected peer; and its state over a load."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.disk import Limits
from replication_lab.probes.commit_latency import none_too_fast
from replication_lab.world import clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import CONNECTED, PRIMARY, UP_TO_DATE, Peer, ResourceStatus

# Write cache on and no delays: the disk is never the bottleneck.
FAST = Limits(write_cache=True)
WAITING = "WFConnection"
NOTICED_SECONDS = 60
# As the resource's file says.
BY_DEFAULT = "C"
# Under A a write completes when it is sent, and does not wait for the peer.
WAIT_FOR_PEER = ("B", "C")
FLUSH = "innodb_flush_log_at_trx_commit"
# The values with which a commit is acknowledged after its write, not before.
FLUSHED = ("1", "3")


def pair(lab: Lab) -> list[Peer]:
    """Return the machine that serves in an experiment, the first, then its peer."""
    return [drbd.Peer(lab, node.name) for node in lab.topology.nodes]


def disks(lab: Lab) -> list[Spindle]:
    """Return the disks of both machines. They are limited together: a resync must not meet one slow disk."""
    return [peer.disk for peer in pair(lab)]


@contextmanager
def in_state(machines: list[Peer], options: Mapping[str, tuple[str, ...]], connected: bool) -> Iterator[None]:
    """Set both machines' options (by kind: disk, net) within the block, and connect or disconnect the peer.

    Afterwards the options are the file's, and both disks equal again: their limits are to be removed by then.
    """
    try:
        for peer in machines:
            for kind, words in options.items():
                peer.tell("options", kind, *words)
        if not connected:
            serving, peer = machines
            peer.tell("disconnect")
            what = f"{serving.node} to continue without its peer"
            clock.wait_until(lambda: serving.status().connection == WAITING, what, NOTICED_SECONDS)
        yield
    finally:
        for peer in machines:
            # This connects as well, as the file says.
            peer.tell("adjust")
        drbd.wait_until_whole(machines[0].lab)


def was_connected(found: list[ResourceStatus], connected: bool) -> Proof:
    """Return a proof that the primary reported the requested connection before and after a load, without a break."""
    said = [f"{status.connection}, {status.disk} here, {status.peer_disk} there" for status in found]
    connection, there = (CONNECTED, UP_TO_DATE) if connected else (WAITING, "DUnknown")
    expected = f"{connection}, {UP_TO_DATE} here, {there} there"
    met = len({status.connected_at for status in found}) > 1
    return Proof(
        what="the peer is connected" if connected else "the peer is in standby",
        expected=f"{expected}, without interruption",
        found="; ".join(dict.fromkeys(said)) + (", and the connection changed meanwhile" if met else ""),
        ok=set(said) == {expected} and not met,
    )


@dataclass
class ReplicatedDiskWatch(Watch):
    """The state of both machines before a load; `proofs` proves that it lasted, and that no commit was too fast.

    `round_trip_ms` is the delay that the toxics add to the link.
    """

    machines: list[Peer]
    protocol: str
    round_trip_ms: float
    before: ResourceStatus = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.machines[0].status()

    def proofs(self, _commits: int, fastest_ms: float | None = None) -> list[Proof]:
        after = [peer.status() for peer in self.machines]
        waits = self.protocol in WAIT_FOR_PEER and self._flushes()
        said = "; ".join(sorted({f"{status.connection}, protocol {status.protocol}" for status in after}))
        roles = ", ".join(dict.fromkeys([self.before.role, after[0].role]))
        return [
            was_connected([self.before, after[0]], True),
            Proof.same(f"{self.machines[0].node} was primary before and after the load", roles, PRIMARY),
            Proof.same("both machines use the protocol of the case", said, f"{CONNECTED}, protocol {self.protocol}"),
            *(none_too_fast(fastest_ms, self.round_trip_ms) if waits else []),
        ]

    def _flushes(self) -> bool:
        """Return whether the server acknowledges a commit after writing its log; the user's settings decide."""
        server = self.machines[0].machine.server()
        return str(server.value(f"SELECT @@GLOBAL.{FLUSH}")) in FLUSHED
