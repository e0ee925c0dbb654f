"""A replicated disk in another state than its file says: options, a peer that stands by, slow disks; undone again."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from replication_lab.model.disk import Limits
from replication_lab.model.proof import Proof
from replication_lab.world import clock, drbd
from replication_lab.world.docker.lab import Lab
from replication_lab.world.drbd import CONNECTED, UP_TO_DATE, Peer, Status

# Volatile, and in nobody's way.
FAST = Limits(write_cache=True)
WAITING = "WFConnection"
NOTICED_SECONDS = 60


def pair(lab: Lab) -> list[Peer]:
    """The machine that serves in an experiment, the first, then its peer."""
    return [drbd.Peer(lab, node.name) for node in lab.topology.nodes]


def limit(machines: list[Peer], limits: Limits) -> None:
    """Both disks at the same time: a resynchronisation must not meet one slow disk."""
    with ThreadPoolExecutor(len(machines)) as pool:
        list(pool.map(lambda peer: peer.disk.limit(limits), machines))


@contextmanager
def in_state(machines: list[Peer], options: Mapping[str, tuple[str, ...]], connected: bool) -> Iterator[None]:
    """Within the block both have these options (by kind: disk, net), and the peer is there or stands by.

    Afterwards the options are the file's, the disks fast, and both machines equal again.
    """
    try:
        for peer in machines:
            for kind, words in options.items():
                peer.tell("options", kind, *words)
        if not connected:
            _part(machines)
        yield
    finally:
        limit(machines, FAST)
        for peer in machines:
            # It connects as well: the file says so.
            peer.tell("adjust")
        drbd.wait_until_whole(machines[0].lab)


def _part(machines: list[Peer]) -> None:
    serving, peer = machines
    peer.tell("disconnect")
    clock.wait_until(lambda: serving.status().connection == WAITING, f"{serving.node} to go on alone", NOTICED_SECONDS)


def was_connected(found: list[Status], connected: bool) -> Proof:
    """Whether the primary's own word, before a load and after it, is what was asked for, and was it in between."""
    said = [f"{status.connection}, {status.disk} here, {status.peer_disk} there" for status in found]
    connection, there = (CONNECTED, UP_TO_DATE) if connected else (WAITING, "DUnknown")
    expected = f"{connection}, {UP_TO_DATE} here, {there} there"
    met = len({status.connected_at for status in found}) > 1
    return Proof(
        what="the peer is there" if connected else "the peer stands by",
        expected=f"{expected}, all the time",
        found="; ".join(dict.fromkeys(said)) + (", and they parted or met meanwhile" if met else ""),
        ok=set(said) == {expected} and not met,
    )
