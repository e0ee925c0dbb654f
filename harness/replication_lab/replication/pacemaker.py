"""A replicated disk and its server under Pacemaker: proved, moved, healthy again.

Pacemaker decides which machine serves: a drill waits for it, and only chooses the machine that serves first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.lab.topology import PAIR
from replication_lab.replication.abilities import ChoosesServer
from replication_lab.replication.drbd import Machines
from replication_lab.replication.kind import Settings, register
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.machines import drbd, pacemaker
from replication_lab.world.machines.pacemaker import (
    COPY,
    POLL_SECONDS,
    PROMOTED,
    SERVICE,
    STARTED,
    STOPPED,
    UNPROMOTED,
    ClusterStatus,
    PacemakerCluster,
)


@register("drbd", manager="pacemaker")
class ManagedMachines(Machines, ChoosesServer):
    """The machines of a DRBD resource under Pacemaker; clients connect to machines, of which one serves."""

    whole = "in the cluster, UpToDate on both disks"
    images = (*Machines.images, "arbiter", "load")

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        return [*super().prove(toxics), *prove_service(self.lab)]

    def describe(self, name: str, role: str) -> tuple[str, list[str]]:
        """Return a machine's state of the disk, and Pacemaker's state of itself and of this machine."""
        said, cluster = super().describe(name, role)
        found = pacemaker.cluster(self.lab).status(name)
        return f"{said}; {found.who()}; {found.runs(name)}", cluster

    def is_whole(self, name: str) -> bool:
        """Return whether this machine reports a quorum and both disks, and both are equal."""
        status = pacemaker.cluster(self.lab).status(name)
        return status.quorum and both_have_disks(status)[0] and super().is_whole(name)

    def let_serve(self, name: str) -> None:
        serving = pacemaker.cluster(self.lab).wait_until_served_by(*self.names)
        if serving != name:
            standby(self.lab, serving)
            online(self.lab, serving)
            pacemaker.cluster(self.lab).wait_until_served_by(name)

    def settle(self) -> None:
        """Let the first machine serve, and fill its redo log."""
        self.let_serve(self.lab.topology.source.name)
        super().settle()

    @contextmanager
    def arranged(self, settings: Settings) -> Iterator[Watch]:
        with super().arranged(settings) as watch:
            # Pacemaker must not have moved the service.
            yield AlsoProves(watch, lambda: prove_service(self.lab))

    def fill_redo(self, node: str) -> None:
        with _left_alone(self.lab.node(node)):
            super().fill_redo(node)

    def promote(self, name: str) -> str:
        pacemaker.cluster(self.lab).wait_until_served_by(name)
        return ""

    def take_over(self, name: str, allow_data_loss: bool) -> str:  # noqa: ARG002 - Pacemaker promotes no old data
        self.let_serve(name)
        return ""

    def take_back(self, name: str, discard_errant: bool) -> None:  # noqa: ARG002 - Pacemaker ends a split brain itself
        online(self.lab, name)

    def wait_until_startable(self, names: Sequence[str], tell: Tell) -> None:
        """Wait until the running machine has fenced these: one that is started sooner is reset by its watchdog."""

        def look() -> tuple[bool, str]:
            running = [name for name in self.names if name not in names and self.lab.node(name).state()[0] == "running"]
            return pacemaker.cluster(self.lab).fenced(names, running[0]) if running else (True, "no machine runs")

        if look()[0]:
            return
        tell(f"waiting until the cluster has fenced {' '.join(names)}; a machine that starts sooner would be reset")
        hint = f"./lab ha status --lab {self.lab.name}"
        clock.wait_while_moving(look, f"{' '.join(names)} to be fenced", POLL_SECONDS, hint)

    def rejoin(self) -> None:
        """Start the machines that their watchdog has switched off, and wait until both are healthy."""
        for name in self.names:
            if self.lab.node(name).state()[0] == "exited":
                self.lab.node(name).start_again()
        wait_until_whole(self.lab)


# --- proofs -----------------------------------------------------------------------------------------------------------


def prove_service(lab: Lab) -> list[Proof]:
    """Return proofs of a cluster with a quorum whose resources all run, and of a service at its own address."""
    found = pacemaker.cluster(lab)
    return [*_prove_status(found.status()), _prove_address(found)]


def _prove_status(status: ClusterStatus) -> list[Proof]:
    online = [name for name, member in status.members.items() if member.online and not member.standby]
    disks = disks_of(status)
    return [
        Proof("one cluster", status.who(), status.quorum and len(online) == len(status.members) == PAIR),
        Proof("its resources run", "; ".join(status.runs(node) for node in status.members), _all_run(status, disks)),
    ]


def disks_of(status: ClusterStatus) -> list[str]:
    """Return the machines whose replicated disk is promoted, and those where it is not."""
    return [status.where(COPY, role) for role in (PROMOTED, UNPROMOTED)]


def _all_run(status: ClusterStatus, disks: list[str]) -> bool:
    service = {(each.node, each.role) for each in status.resources if each.part_of == SERVICE}
    down = [each for each in status.resources if each.failed or not each.node]
    return not down and set(disks) == set(status.members) and service == {(disks[0], STARTED)}


def _prove_address(found: PacemakerCluster) -> Proof:
    server = found.server()
    said = f"service IP {found.address()} is on {server or 'no node'}"
    return Proof("clients reach the service at its address", said, bool(server) and server == found.status().serving)


@contextmanager
def _left_alone(machine: Node) -> Iterator[None]:
    """Let Pacemaker do nothing within the block: a server that is stopped by others would be a failure to it."""
    change = ("guest", "crm_attribute", "--name", "maintenance-mode")
    machine.run(*change, "--update", "true")
    try:
        yield
    finally:
        machine.run(*change, "--delete")


# --- moved ------------------------------------------------------------------------------------------------------------


def standby(lab: Lab, node: str) -> float | None:
    """Take a machine out of service; return the seconds until clients reached the service on its peer.

    None if the service was there already. Raise LabError if the peer cannot take over.
    """
    cluster, status = pacemaker.cluster(lab), _status_with(lab, node)
    other = next(name for name in status.members if name != node)
    serves = status.serving == node
    _refuse_without_peer(lab, status, other) if serves else _refuse_unless_served(status, other)
    began = clock.timer()
    cluster.tell("standby", node)
    if serves:
        cluster.wait_until_served_by(other)
    moved = clock.timer() - began if serves else None
    clock.wait_while_moving(
        lambda: _runs_nothing(cluster.status(), node), f"{node} to stop its resources", POLL_SECONDS
    )
    return moved


def _status_with(lab: Lab, node: str) -> ClusterStatus:
    status = pacemaker.cluster(lab).status()
    if node not in status.members:
        raise unknown_name(f"machine of {lab.name}", node, status.members, "./lab ha status")
    return status


def _refuse_unless_served(status: ClusterStatus, other: str) -> None:
    """Refuse unless the other machine serves: just after a node is lost, Pacemaker still reports it as serving."""
    member = status.members[other]
    if status.serving != other or not member.online or member.unclean:
        raise LabError(
            f"{other} does not run the service: {status.words()}", "a service that keeps running", "./lab ha status"
        )


def _refuse_without_peer(lab: Lab, status: ClusterStatus, other: str) -> None:
    drbd.Peer(lab, other).refuse_unless_running()
    peer = status.members[other]
    if not peer.online or peer.unclean or peer.standby or not status.where(COPY, UNPROMOTED):
        found = f"{other} cannot take over: {status.who()}"
        raise LabError(found, "a peer that is online with its disk", f"./lab ha online {other}")
    # Pacemaker promotes no outdated data, and would have stopped the service by then.
    disk = drbd.Peer(lab, other).status()
    if not disk.whole:
        found = f"{other} cannot take over: {disk.words()}"
        raise LabError(found, "a peer with the same data", "./lab drbd status")


def _runs_nothing(status: ClusterStatus, node: str) -> tuple[bool, str]:
    running = [each for each in status.resources if each.node == node and each.role != STOPPED]
    return not running, status.words()


def online(lab: Lab, node: str) -> float:
    """Take a machine into service again; return the seconds until it is a member and both disks are equal."""
    _status_with(lab, node)
    for peer in drbd.peers(lab).values():
        peer.refuse_unless_running()
    began = clock.timer()
    pacemaker.cluster(lab).tell("online", node)
    wait_until_whole(lab)
    return clock.timer() - began


def wait_until_whole(lab: Lab) -> None:
    """Wait until both machines are members with equal disks; a machine that was down may have to boot."""
    # One that boots faster than the ring's timeout is still a member of its peer's old view.
    for peer in drbd.peers(lab).values():
        peer.wait_until_answers()
    clock.wait_while_moving(
        lambda: both_have_disks(pacemaker.cluster(lab).status()),
        "both machines in the cluster with their disks",
        every=POLL_SECONDS,
        hint="./lab ha status",
    )
    drbd.wait_until_whole(lab)


def both_have_disks(status: ClusterStatus) -> tuple[bool, str]:
    # Just after a node is lost, Pacemaker still reports its last state.
    online = {name for name, member in status.members.items() if member.online and not member.unclean}
    return set(disks_of(status)) == online == set(status.members), status.words()
