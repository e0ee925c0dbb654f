"""Two machines with one replicated disk: proved, moved to the other machine, split and rejoined, compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar

from replication_lab.model.errors import LabError, unknown_name
from replication_lab.model.evidence import View
from replication_lab.model.proof import Proof
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.probes.waited import waited
from replication_lab.replication.abilities import ComparesDisks, Promotes, RunsMachines, TakesOptions, TakesOver
from replication_lab.replication.kind import COMMITS, Nodes, in_round_trips, register
from replication_lab.world import clock, drbd, pacemaker
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.drbd import CONNECT_SECONDS, Peer, Status
from replication_lab.world.mysql.server import Server

# The kind of options that the file system takes; the others are DRBD's own.
MOUNT = "mount"
# DRBD notices a dead peer only by timeout (compose/drbd/lab.res), and InnoDB has to recover.
SERVE_SECONDS = 120


@register("drbd")
class Machines(Nodes, RunsMachines, Promotes, TakesOver, TakesOptions, ComparesDisks):
    """The machines of a DRBD resource; the server runs on the primary only."""

    roles = frozenset({"peer"})
    whole = "UpToDate on both disks"
    options = ("disk", "net", MOUNT)
    images: ClassVar[Sequence[str]] = ("vm", "spindle")
    experiment = "drbd_cost"
    instead_of_failover = "./lab drbd promote NODE"

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self._old: list[str] = []
        self._states: dict[str, Conversation] = {}

    def writer(self) -> Server:
        return self.server(drbd.primary(self.lab).node)

    def written_at(self) -> str:
        with suppress(LabError):
            return drbd.primary(self.lab).node
        return super().written_at()

    def answers(self, name: str) -> bool:
        """Return whether a machine answers: its server may have moved to the peer."""
        return bool(drbd.Peer(self.lab, name).status())

    def client(self, _name: str) -> list[str]:
        """Return the command of the client in the machine, which is reached through its container."""
        return ["guest", "--terminal", "mariadb"]

    def inside(self, service: str, command: Sequence[str], terminal: bool = False) -> list[str]:
        """Return the command for the machine of a node; other services are containers alone."""
        if service not in self.names:
            return [*command]
        return ["guest", *(["--terminal"] if terminal else []), *command]

    def machines(self) -> dict[str, str]:
        """Return the launcher of each machine."""
        return {name: drbd.Peer(self.lab, name).launcher() for name in self.names}

    def disks(self, name: str) -> dict[str, Spindle]:
        """Return the disk under DRBD."""
        return {drbd.DISK: drbd.Peer(self.lab, name).disk}

    def after_disk_failure(self, _name: str) -> str:
        return "./lab drbd status"

    def after_disk_healed(self, name: str) -> str:
        return f"./lab drbd online {name}"

    def describe(self, name: str, _role: str) -> tuple[str, list[str]]:
        """Return a machine's state of the replicated disk; after a split brain, also the command that ends it."""
        found = drbd.Peer(self.lab, name).status()
        said = found.words()
        return f"{said}; split brain: {HOW_TO_RESOLVE}" if found.split_brain else said, []

    def view(self, name: str) -> View:
        found = self._state(name)
        return View(f"{found.role}, {found.connection}", disks=found.disks())

    def _state(self, name: str) -> Status:
        """Return a machine's state now.

        The command that reports it keeps running. It is started again if it has ended, as after a machine's restart.
        """
        states = self._states.get(name)
        if not states or states.has_ended:
            states = self._states[name] = drbd.Peer(self.lab, name).states()
        return drbd.parse_status(states.ask())

    def is_whole(self, name: str) -> bool:
        found = drbd.Peer(self.lab, name).status()
        # One of the two machines has to be primary.
        if drbd.PRIMARY not in (found.role, found.peer_role):
            return False
        return found.whole and (not found.primary or bool(self.server(name).version()))

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        """Prove that both disks have the same data, and that a commit is on both when it is answered."""
        found = {node: peer.status() for node, peer in drbd.peers(self.lab).items()}
        return [_prove_whole(found), *self._prove_commits(toxics)]

    def _prove_commits(self, toxics: Mapping[str, str]) -> list[Proof]:
        """Prove that an answered commit is on the peer's disk, and waited for the link if its round trip is long."""
        serving = self.writer()
        peer = other(self.lab, serving.name)
        commit = CommitLatency(serving)
        before = peer.disk.stats().writes
        fastest = min(commit.commits(COMMITS))
        written, after = peer.disk.stats().writes - before, peer.status()
        trip = max(trip for name in self.names for trip in self.round_trips(name, toxics))
        # One commit after another, so that each needs a write of its own.
        arrives = Proof(
            "a row written on the primary is on the peer's disk",
            f"{COMMITS} commits made {written} disk writes on the peer, {after.out_of_sync_kib} KiB out of sync",
            written >= COMMITS and after.whole,
        )
        # Without a round trip on the link any latency would pass.
        if not trip:
            return [arrives]
        said = f"at least {fastest:.1f} ms per commit{in_round_trips(fastest, trip)}"
        return [Proof("a commit waits for the peer", said, waited(fastest, trip)), arrives]

    def fill_redo(self, node: str) -> None:
        """Restart the server on a redo log that has been written once: else a commit is two writes, not one."""
        fill_redo(self.lab, node)

    def wait_until_level(self) -> None:
        drbd.wait_until_whole(self.lab)

    def differences(self) -> list[str]:
        """Return what differs on the two disks, below all rows; empty where they are equal."""
        self.wait_until_level()
        differing = drbd.verify(self.lab)
        return [f"the two disks differ in {differing} KiB"] if differing else []

    def holders(self) -> dict[str, str]:
        """Return the primary, whose rows can be read; the other disk is compared with its own."""
        return {drbd.primary(self.lab).node: ""}

    def compared(self) -> dict[str, int]:
        """Compare all blocks of both disks, as `lab drbd verify` does."""
        return {"differing_kib": drbd.verify(self.lab)}

    @contextmanager
    def optioned(self, options: Mapping[str, Sequence[str]]) -> Iterator[None]:
        """Set DRBD's options on both machines, by kind, and the file system's; later restore the resource file's."""
        peers = drbd.peers(self.lab).values()
        try:
            for peer in peers:
                for kind in options.keys() - {MOUNT}:
                    peer.tell("options", kind, *options[kind])
                    peer.refuse_unless_set(options[kind])
            if MOUNT in options:
                drbd.primary(self.lab).tell("remount", *options[MOUNT])
            yield
        finally:
            # A machine that does not answer has ended; it starts with the options of its file.
            for peer in peers:
                with suppress(LabError):
                    peer.tell("adjust")
            if MOUNT in options:
                with suppress(LabError):
                    drbd.primary(self.lab).tell("remount")

    def promote(self, name: str) -> None:
        """Make a machine primary; power it on first if it is off, before its peer, which could outdate its data."""
        self._old = [old for old in self.names if old != name]
        was_off = self.lab.node(name).state()[0] == "exited"
        if was_off:
            drbd.Peer(self.lab, name).power_on()
        promote(self.lab, name, allow_data_loss=was_off)

    def take_over(self, name: str, allow_data_loss: bool) -> None:
        promote(self.lab, name, allow_data_loss)

    def take_back(self, name: str, discard_errant: bool) -> None:
        if discard_errant and drbd.Peer(self.lab, name).status().split_brain:
            resolve(self.lab, name)
        else:
            online(self.lab, name)

    def rejoin(self) -> None:
        for name in self._old:
            online(self.lab, name)


def _prove_whole(found: dict[str, Status]) -> Proof:
    said = "; ".join(f"{node} {status.words()}" for node, status in found.items())
    primaries = [node for node, status in found.items() if status.primary]
    whole = all(status.whole and status.protocol == "C" for status in found.values())
    return Proof("one replicated disk, protocol C", said, whole and len(primaries) == 1)


# --- roles ------------------------------------------------------------------------------------------------------------


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
        lambda: _serves(lab, node),
        f"the server on {node} to answer",
        SERVE_SECONDS,
        every=0.1,
        hint=f"./lab logs {node} --lab {lab.name}",
    )


def _serves(lab: Lab, node: str) -> bool:
    try:
        return bool(lab.node(node).server().version())
    except LabError:
        return False


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


def online(lab: Lab, node: str, progress: Callable[[float], None] = lambda _: None) -> Status:
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


# DRBD dials its peer every ten seconds (connect-int). It finds a split brain only once the peer has answered.
RETRY_SECONDS = 15
HOW_TO_RESOLVE = "./lab drbd resolve --victim NODE"


def _after_dialling(*peers: Peer) -> dict[str, Status]:
    """Return the state of each machine. While both wait for a connection, first give DRBD time to dial again."""

    def decided() -> bool:
        return any(peer.wait_until_answers().connection != "WFConnection" for peer in peers)

    with suppress(LabError):
        clock.wait_until(decided, "DRBD to connect", RETRY_SECONDS)
    return {peer.node: peer.wait_until_answers() for peer in peers}


def resolve(lab: Lab, victim: str) -> Status:
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
