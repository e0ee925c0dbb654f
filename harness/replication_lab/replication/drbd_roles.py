"""The roles of two machines with one replicated disk: primary, in standby, in service again, after a split brain."""

from contextlib import suppress

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.succession import TakenBack, TakenOut, TakenOver
from replication_lab.replication.kind import Nodes
from replication_lab.replication.role_changes import quiet
from replication_lab.world import clock
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import CONNECT_SECONDS, Peer, ResourceStatus

# DRBD dials its peer every ten seconds (connect-int). It finds a split brain only once the peer has answered.
RETRY_SECONDS = 15
HOW_TO_RESOLVE = "./lab rejoin NODE --discard-errant"


class DiskRoles(Nodes):
    """The machines of a DRBD resource, of which one is the primary."""

    def _pair(self, name: str) -> tuple[Peer, Peer]:
        """Return a machine and its peer."""
        found = drbd.peers(self.lab)
        refuse_unknown(f"machine of {self.lab.name}", name, found, "./lab status")
        return found[name], drbd.other(self.lab, name)

    def take_over(self, name: str, allow_data_loss: bool = False) -> TakenOver:
        """Make a machine the primary, with file system and server.

        Raise LabError if the peer is primary or may be: it has to be secondary or down first. Raise it also if this
        machine may lack writes of the peer, unless `allow_data_loss` is set.
        """
        (peer, partner), began = self._pair(name), clock.timer()
        peer.refuse_unless_running()
        _refuse_second_primary(peer, partner)
        if not allow_data_loss:
            _refuse_old_data(peer, partner)
        peer.tell("promote")
        peer.wait_until_serves()
        return TakenOver(partner.node, name, replaced=[partner.node], seconds=clock.timer() - began)

    def switch_over(self, name: str) -> TakenOver:
        """Demote the peer and promote this machine; if that fails, the peer serves again."""
        (peer, partner), began = self._pair(name), clock.timer()
        for one in (peer, partner):
            one.refuse_unless_running()
        if peer.status().primary:
            return TakenOver(name, name)
        _refuse_old_data(peer, partner)
        partner.tell("demote")
        try:
            self.take_over(name)
        except BaseException:
            # Also after an interruption.
            partner.tell("promote")
            partner.wait_until_serves()
            raise
        return TakenOver(partner.node, name, seconds=clock.timer() - began)

    def take_over_after_loss(self, name: str) -> TakenOver:
        """Power the machine on first if it is off, before its peer, which could outdate its data."""
        was_off = self.lab.node(name).state()[0] == "exited"
        if was_off:
            drbd.Peer(self.lab, name).power_on()
        return self.take_over(name, allow_data_loss=was_off)

    def standby(self, name: str) -> TakenOut:
        peer, partner = self._pair(name)
        moved = None
        if peer.status().primary:
            partner.refuse_unless_running()
            if not partner.status().has_all:
                raise LabError(
                    f"{partner.node} cannot take over from {name}",
                    "a connected peer with the same data",
                    "./lab status",
                )
            began = clock.timer()
            peer.tell("demote")
            self.take_over(partner.node)
            moved = clock.timer() - began
        peer.tell("disconnect")
        return TakenOut(name, moved)

    def online(self, name: str, tell: Tell = quiet) -> TakenBack:
        """Connect a machine and its disk again, and resync what was written meanwhile."""
        peer, partner = self._pair(name)
        for one in (peer, partner):
            one.refuse_unless_running()
        for one in (peer, partner):
            one.wait_until_answers()
        if any(one.status().split_brain for one in (peer, partner)):
            raise LabError(
                "split brain: both machines were primary and accepted writes",
                "a victim whose changes are discarded",
                HOW_TO_RESOLVE,
            )
        # Blocks that a comparison found different are copied on the next connection.
        if peer.status().connection == drbd.CONNECTED and peer.status().out_of_sync_kib:
            peer.tell("disconnect")
        for one in (peer, partner):
            if one.status().disk == drbd.DISKLESS:
                one.tell("attach")
            if one.status().connection == drbd.STAND_ALONE:
                one.tell("connect")
        drbd.wait_until_whole(self.lab, progress=lambda percent: tell(f"  {percent:.0f} % copied"))
        return TakenBack(name, partner.node, state=peer.status().words())

    def take_back(self, name: str, discard_errant: bool = False, tell: Tell = quiet) -> TakenBack:
        peer, survivor = self._pair(name)
        if discard_errant:
            found = _after_dialling(peer, survivor)
            if any(status.split_brain for status in found.values()):
                return self._discard(peer, survivor, found)
        return self.online(name, tell)

    def _discard(self, victim: Peer, survivor: Peer, found: dict[str, ResourceStatus]) -> TakenBack:
        """End a split brain: discard the victim's own writes and resync it from the survivor."""
        # The victim's rows are discarded at once, so the survivor's disk has to be UpToDate.
        if found[survivor.node].disk != drbd.UP_TO_DATE:
            raise LabError(
                f"{survivor.node} would keep its data, but its disk is {found[survivor.node].words()}",
                f"a survivor whose disk is {drbd.UP_TO_DATE}",
                f"./lab rejoin {survivor.node} --discard-errant",
            )
        victim.tell("discard")
        if survivor.status().connection == drbd.STAND_ALONE:
            survivor.tell("connect")
        clock.wait_until(
            lambda: victim.status().connection not in (drbd.STAND_ALONE, "WFConnection"),
            f"{victim.node} to connect",
            CONNECT_SECONDS,
            hint="./lab status",
        )
        drbd.wait_until_whole(self.lab)
        said = victim.status().words()
        return TakenBack(victim.node, survivor.node, "its changes since the split brain", said)


def _refuse_second_primary(peer: Peer, partner: Peer) -> None:
    """Ask the partner itself: a cut link does not prove it is down, and a silent or frozen machine may continue."""
    kill = f"./lab kill {partner.node}"
    state = partner.state()
    if state == "paused":
        thaw = f"./lab start {partner.node}, or {kill}"
        raise LabError(f"{partner.node} is frozen and may still be primary", "a peer that answers or is down", thaw)
    if state == "running":
        what = f"an answer from {partner.node}, which runs and may be primary,"
        said = clock.wait_until(partner.answer, what, drbd.SILENT_SECONDS, hint=kill)
        if said.primary:
            raise LabError(f"{partner.node} is primary", "one primary", f"./lab standby {partner.node}")
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
            f"./lab online {peer.node}" if runs else start,
        )
    if not found.connected_at:
        raise LabError(
            f"{peer.node} has not connected to {partner.node} since its start and may lack newer writes",
            "a machine with the latest data",
            f"{'./lab status' if runs else start}, or ./lab failover {peer.node} --allow-data-loss",
        )


def _after_dialling(*peers: Peer) -> dict[str, ResourceStatus]:
    """Return the state of each machine. While both wait for a connection, first give DRBD time to dial again."""

    def decided() -> bool:
        return any(peer.wait_until_answers().connection != "WFConnection" for peer in peers)

    with suppress(LabError):
        clock.wait_until(decided, "DRBD to connect", RETRY_SECONDS)
    return {peer.node: peer.wait_until_answers() for peer in peers}
