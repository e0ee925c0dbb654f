"""A replicated disk in another state than its file says: options, a disconnected peer; undone again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.world import clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import CONNECTED, UP_TO_DATE, Peer, ResourceStatus

# Write cache on and no delays: the disk is never the bottleneck.
FAST = Limits(write_cache=True)
WAITING = "WFConnection"
NOTICED_SECONDS = 60


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
            _part(machines)
        yield
    finally:
        for peer in machines:
            # This connects as well, as the file says.
            peer.tell("adjust")
        drbd.wait_until_whole(machines[0].lab)


def _part(machines: list[Peer]) -> None:
    serving, peer = machines
    peer.tell("disconnect")
    clock.wait_until(
        lambda: serving.status().connection == WAITING, f"{serving.node} to continue without its peer", NOTICED_SECONDS
    )


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
