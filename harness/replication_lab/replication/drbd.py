"""Two machines with one replicated disk: proved, moved to the other machine, rejoined, compared."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.succession import TakenBack, TakenOut, TakenOver
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.commit_latency import per_commit, waited
from replication_lab.replication import drbd_state
from replication_lab.replication.drbd_state import BY_DEFAULT, ReplicatedDiskWatch
from replication_lab.replication.kind import COMMITS, Nodes, register
from replication_lab.replication.role_changes import NodeState, quiet
from replication_lab.world import clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import CONNECT_SECONDS, Peer, ResourceStatus
from replication_lab.world.mysql.server import Server

# Runs a command in the guest with the caller's terminal and root's password, which the guest has in a file: the
# container's variable MYSQL_PWD would become an argument of ssh, which every user of the host can read.
AS_ROOT = (
    *("env", "MYSQL_PWD=", "guest", "--terminal"),
    *("bash", "-c", '. /etc/lab/environment && MYSQL_PWD=$MYSQL_ROOT_PASSWORD exec "$@"', "bash"),
)
# The kind of options that the file system takes; the others are DRBD's own.
MOUNT = "mount"
# DRBD dials its peer every ten seconds (connect-int). It finds a split brain only once the peer has answered.
RETRY_SECONDS = 15
HOW_TO_RESOLVE = "./lab rejoin NODE --discard-errant"


@register("drbd")
class Machines(Nodes):
    """The machines of a DRBD resource; the server runs on the primary only."""

    roles = frozenset({"peer"})
    followers = frozenset[str]()
    whole = "UpToDate on both disks"
    in_machines = True
    options = ("disk", "net", MOUNT)
    images: ClassVar[Sequence[str]] = ("vm", "spindle")
    after_disk_failure = "./lab status"
    after_disk_healed = "./lab online {node}"
    experiment = "drbd_cost"
    protocols: ClassVar[Sequence[str]] = ("A", "B", "C")
    waits_on = "farthest"
    why_fixed = "DRBD replicates its disk, below the server"
    good = "(Primary|Secondary), Connected"
    doubtful = r"Primary, WFConnection|(Primary|Secondary), (Sync|PausedSync|Verify|WFBitMap|WFSync)\w*"
    explains = "drbd"

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self._states: dict[str, Conversation] = {}

    @classmethod
    def accepts_writes(cls, state: str) -> bool:
        return state.startswith(f"{drbd.PRIMARY}, ")

    def carries_writes(self, _node: str, _source: str, _target: str) -> bool:
        """Return True: the pair has one link, whichever machine serves."""
        return True

    def writer(self) -> Server:
        return self.server(drbd.primary(self.lab).node)

    def written_at(self) -> str:
        with suppress(LabError):
            return drbd.primary(self.lab).node
        return super().written_at()

    def answers(self, name: str) -> bool:
        """Return whether a machine answers: its server may have moved to the peer."""
        return bool(drbd.Peer(self.lab, name).status())

    def client(self, _name: str, terminal: bool = True) -> list[str]:
        """Return the command of the client in the machine, which is reached through its container."""
        return [*(AS_ROOT if terminal else AS_ROOT[:3] + AS_ROOT[4:]), "mariadb"]

    def inside(self, service: str, command: Sequence[str], terminal: bool = False) -> list[str]:
        """Return the command for the machine of a node; other services are containers alone."""
        if service not in self.names:
            return [*command]
        return [*(AS_ROOT if terminal else ["guest"]), *command]

    def machines(self) -> dict[str, str]:
        return {name: drbd.Peer(self.lab, name).launcher() for name in self.names}

    def disks(self, name: str) -> dict[str, Spindle]:
        """Return the disk under DRBD."""
        return {drbd.DISK: drbd.Peer(self.lab, name).disk}

    def state(self, name: str, _role: str) -> NodeState:
        """Return a machine's state of the replicated disk; after a split brain, also the command that ends it."""
        found = drbd.Peer(self.lab, name).status()
        # Short, because a command that is wrapped cannot be copied.
        ended_by = f"; split brain: {HOW_TO_RESOLVE}" if found.split_brain else ""
        return NodeState(found.words() + ended_by, details={"resource": found})

    def view(self, name: str) -> View:
        found = self._state(name)
        return View(f"{found.role}, {found.connection}", disks=found.disks())

    def _state(self, name: str) -> ResourceStatus:
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

    def prove(self, toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove that both disks have the same data, and that a commit is on both when it is answered."""
        found = self.of_each(lambda name: drbd.Peer(self.lab, name).status())
        whole = _prove_whole(found)
        if not whole.ok:
            return [whole]
        serving = next(name for name, status in found.items() if status.primary)
        return [whole, *self._prove_commits(serving, toxics)]

    def _prove_commits(self, serving: str, toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove that an answered commit is on the peer's disk, and waited for the link if its round trip is long."""
        peer = drbd.other(self.lab, serving)
        commit = self.commit_latency(self.server(serving))
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
        return [Proof("a commit waits for the peer", per_commit(fastest, trip), waited(fastest, trip)), arrives]

    def settle(self) -> None:
        """Restart the server on a redo log that has been written once: else a commit is two writes, not one."""
        first = drbd.Peer(self.lab, self.lab.topology.source.name)
        first.machine.run("guest", "server", "fill_redo")
        first.wait_until_serves()

    @contextmanager
    def arranged(self, case: Case) -> Iterator[Watch]:
        """Set the case's protocol on both machines; yield the watch that proves their state over the load."""
        machines, protocol = drbd_state.pair(self.lab), case.state.protocol
        options = {"net": (f"--protocol={protocol}",)} if protocol else {}
        with drbd_state.in_state(machines, options, connected=True):
            yield ReplicatedDiskWatch(machines, protocol or BY_DEFAULT, case.added_ms)

    def wait_until_caught_up(self) -> None:
        drbd.wait_until_whole(self.lab)

    def differences(self) -> list[str]:
        """Return what differs on the two disks, below all rows; empty where they are equal."""
        self.wait_until_caught_up()
        differing = drbd.verify(self.lab)
        return [f"the two disks differ in {differing} KiB"] if differing else []

    def holders(self) -> dict[str, str]:
        """Return the primary, whose rows can be read; the other disk is compared with its own."""
        return {drbd.primary(self.lab).node: ""}

    def compared(self, tell: Tell = quiet) -> dict[str, int]:
        """Compare all blocks of both disks while they are in use."""
        try:
            return {"differing_kib": drbd.verify(self.lab, lambda percent: tell(f"  {percent:.0f} % compared"))}
        except KeyboardInterrupt:
            tell("the machines continue to compare; to see their progress: ./lab status")
            raise

    def set_options(self, options: Mapping[str, Sequence[str]]) -> None:
        """Set DRBD's options on both machines, by kind, and the file system's, or without any those of the file.

        LabError for one that is accepted and not in force. A machine that has ended starts with those of the file.
        """
        if not options:
            for peer in drbd.peers(self.lab).values():
                with suppress(LabError):
                    peer.tell("adjust")
            with suppress(LabError):
                drbd.primary(self.lab).tell("remount")
            return
        for peer in drbd.peers(self.lab).values():
            for kind in options.keys() - {MOUNT}:
                peer.tell("options", kind, *options[kind])
                peer.refuse_unless_set(options[kind])
        if MOUNT in options:
            drbd.primary(self.lab).tell("remount", *options[MOUNT])

    # --- roles: primary, in standby, in service again, after a split brain --------------------------------------------

    def _pair(self, name: str) -> tuple[Peer, Peer]:
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


def _prove_whole(found: dict[str, ResourceStatus]) -> Proof:
    said = "; ".join(f"{node} {status.words()}" for node, status in found.items())
    primaries = [node for node, status in found.items() if status.primary]
    whole = all(status.whole and status.protocol == "C" for status in found.values())
    return Proof("one replicated disk, protocol C", said, whole and len(primaries) == 1)
