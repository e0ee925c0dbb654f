"""The roles of two machines with one replicated disk: promoted, in standby, in service again, after a split brain."""

from collections.abc import Callable
from contextlib import suppress

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd, pacemaker
from replication_lab.world.machines.drbd import CONNECT_SECONDS, Peer, ResourceStatus

# DRBD notices a dead peer only by timeout (compose/drbd/lab.res), and InnoDB has to recover.
SERVE_SECONDS = 120
# DRBD dials its peer every ten seconds (connect-int). It finds a split brain only once the peer has answered.
RETRY_SECONDS = 15
HOW_TO_RESOLVE = "./lab drbd resolve --victim NODE"


def other(lab: Lab, node: str) -> Peer:
    return next(peer for name, peer in drbd.peers(lab).items() if name != node)


def _peer(lab: Lab, node: str) -> Peer:
    found = drbd.peers(lab)
    if node not in found:
        raise unknown_name(f"machine of {lab.name}", node, found, "./lab drbd status")
    return found[node]


def promote(lab: Lab, node: str, allow_data_loss: bool = False) -> float:
    """Make a machine the primary, with file system and server; return the seconds until the server answers.

    Raise LabError if the peer is primary or may be: it has to be secondary or down first. Raise it also if this machine
    may lack writes of the peer, unless `allow_data_loss` is set.
    """
    pacemaker.refuse_managed(lab, f"./lab ha standby {other(lab, node).node}")
    peer, partner, began = _peer(lab, node), other(lab, node), clock.timer()
    peer.refuse_unless_running()
    _refuse_second_primary(peer, partner)
    if not allow_data_loss:
        _refuse_old_data(peer, partner)
    peer.tell("promote")
    wait_until_serves(lab, node)
    return clock.timer() - began


def _refuse_second_primary(peer: Peer, partner: Peer) -> None:
    """Ask the partner itself: a cut link does not prove it is down, and a silent or frozen machine may continue."""
    kill = f"./lab kill {partner.node}"
    state = partner.state()
    if state == "paused":
        thaw = f"./lab resume {partner.node}, or {kill}"
        raise LabError(f"{partner.node} is frozen and may still be primary", "a peer that answers or is down", thaw)
    if state == "running":
        what = f"an answer from {partner.node}, which runs and may be primary,"
        said = clock.wait_until(partner.answer, what, drbd.SILENT_SECONDS, hint=kill)
        if said.primary:
            raise LabError(f"{partner.node} is primary", "one primary", f"./lab drbd standby {partner.node}")
    # DRBD notices a dead peer only by timeout.
    clock.wait_until(
        lambda: peer.status().peer_role != drbd.PRIMARY,
        f"{peer.node} to notice the loss of {partner.node}",
        CONNECT_SECONDS,
    )


def _refuse_old_data(peer: Peer, partner: Peer) -> None:
    found = peer.status()
    runs = partner.state() == "running"
    start = f"./lab start {partner.node}"
    if found.connection == drbd.STAND_ALONE:
        raise LabError(
            f"{peer.node} is in standby and may lack writes of {partner.node}",
            "a machine with the latest data",
            f"./lab drbd online {peer.node}" if runs else start,
        )
    if not found.connected_at:
        raise LabError(
            f"{peer.node} has not connected to {partner.node} since its start and may lack newer writes",
            "a machine with the latest data",
            f"{'./lab drbd status' if runs else start}, or ./lab drbd promote {peer.node} --allow-data-loss",
        )


def wait_until_serves(lab: Lab, node: str) -> None:
    clock.wait_until(
        lab.node(node).answers,
        f"the server on {node} to answer",
        SERVE_SECONDS,
        every=0.1,
        hint=f"./lab logs {node} --lab {lab.name}",
    )


def fill_redo(lab: Lab, node: str) -> None:
    """Restart the server on a redo log that has been written once: else a commit is two writes, not one."""
    lab.node(node).run("guest", "server", "fill_redo")
    wait_until_serves(lab, node)


def standby(lab: Lab, node: str) -> float | None:
    """Take a machine out of service; return the seconds without service if it moved to the peer, else None."""
    pacemaker.refuse_managed(lab, f"./lab ha standby {node}")
    peer, partner = _peer(lab, node), other(lab, node)
    moved = None
    if peer.status().primary:
        partner.refuse_unless_running()
        if not partner.status().has_all:
            raise LabError(
                f"{partner.node} cannot take over from {node}",
                "a connected peer with the same data",
                "./lab drbd status",
            )
        began = clock.timer()
        peer.tell("demote")
        promote(lab, partner.node)
        moved = clock.timer() - began
    peer.tell("disconnect")
    return moved


def online(lab: Lab, node: str, progress: Callable[[float], None] = lambda _: None) -> ResourceStatus:
    """Take a machine into service again with its disk and connection, and resync what was written meanwhile.

    `progress` is called with the percentage that is done.
    """
    pacemaker.refuse_managed(lab, f"./lab ha online {node}")
    peer, both = _peer(lab, node), list(drbd.peers(lab).values())
    for one in both:
        one.refuse_unless_running()
    for one in both:
        one.wait_until_answers()
    refuse_split_brain(lab)
    # Blocks that a comparison found different are copied on the next connection.
    if peer.status().connection == drbd.CONNECTED and peer.status().out_of_sync_kib:
        peer.tell("disconnect")
    for one in both:
        if one.status().disk == drbd.DISKLESS:
            one.tell("attach")
        if one.status().connection == drbd.STAND_ALONE:
            one.tell("connect")
    drbd.wait_until_whole(lab, progress=progress)
    return peer.status()


# --- split brain ------------------------------------------------------------------------------------------------------


def refuse_split_brain(lab: Lab) -> None:
    if any(peer.status().split_brain for peer in drbd.peers(lab).values()):
        raise LabError(
            "split brain: both machines were primary and accepted writes",
            "a victim whose changes are discarded",
            HOW_TO_RESOLVE,
        )


def _after_dialling(*peers: Peer) -> dict[str, ResourceStatus]:
    """Return the state of each machine. While both wait for a connection, first give DRBD time to dial again."""

    def decided() -> bool:
        return any(peer.wait_until_answers().connection != "WFConnection" for peer in peers)

    with suppress(LabError):
        clock.wait_until(decided, "DRBD to connect", RETRY_SECONDS)
    return {peer.node: peer.wait_until_answers() for peer in peers}


def resolve(lab: Lab, victim: str) -> ResourceStatus:
    """End a split brain: discard the victim's own writes and resync it from the survivor."""
    peer, survivor = _peer(lab, victim), other(lab, victim)
    found = _after_dialling(peer, survivor)
    if not any(status.split_brain for status in found.values()):
        raise LabError(f"{lab.name} has no split brain: {found[victim].words()}", "a split brain", "./lab drbd status")
    # The victim's rows are discarded at once, so the survivor's disk has to be UpToDate.
    if found[survivor.node].disk != drbd.UP_TO_DATE:
        said = f"{survivor.node} would keep its data, but its disk is {found[survivor.node].words()}"
        raise LabError(
            said, f"a survivor whose disk is {drbd.UP_TO_DATE}", f"./lab drbd resolve --victim {survivor.node}"
        )
    if lab.topology.manager and found[victim].primary:
        raise LabError(
            f"{victim} runs the service, and Pacemaker would treat its stop as a failure",
            "a victim that does not run the service",
            f"./lab drbd resolve --victim {survivor.node}",
        )
    peer.tell("discard")
    if survivor.status().connection == drbd.STAND_ALONE:
        survivor.tell("connect")
    clock.wait_until(
        lambda: peer.status().connection not in (drbd.STAND_ALONE, "WFConnection"),
        f"{victim} to connect",
        CONNECT_SECONDS,
        hint="./lab drbd status",
    )
    drbd.wait_until_whole(lab)
    return peer.status()
