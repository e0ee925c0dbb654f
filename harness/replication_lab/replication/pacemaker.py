"""A replicated disk and its server under Pacemaker: proved, moved, healthy again.

Pacemaker decides which machine serves: a drill waits for it, and only chooses the machine that serves first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.lab.succession import TakenBack, TakenOut, TakenOver
from replication_lab.model.lab.topology import PAIR
from replication_lab.model.lab.toxic import Toxic
from replication_lab.replication.drbd import Machines
from replication_lab.replication.kind import register
from replication_lab.replication.role_changes import NodeState, quiet
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import Peer, ResourceStatus
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
class ManagedMachines(Machines):
    """The machines of a DRBD resource under Pacemaker; clients connect to machines, of which one serves."""

    whole = "in the cluster, UpToDate on both disks"
    images = (*Machines.images, "arbiter", "load")
    elects = True
    # A primary that loses its peer fences it before it continues, so no write may be acknowledged without the peer.
    protocols = ("B", "C")
    moves_service = "./lab standby node1"

    def prove(self, toxics: Mapping[str, Toxic]) -> list[Proof]:
        return [*super().prove(toxics), *prove_service(self.lab)]

    def state(self, name: str, role: str) -> NodeState:
        """Return a machine's state of the disk, and its view of the cluster and of what it runs itself."""
        disk, found = super().state(name, role), PacemakerCluster(self.lab).status(name)
        failed = [f"failed: {failure}" for failure in found.failures]
        said = "; ".join([disk.says, found.who(), found.runs(name), *failed])
        return NodeState(said, details={**disk.details, "cluster": found})

    def service(self) -> str:
        """Return the service's address, and the machine that answers clients there."""
        found = PacemakerCluster(self.lab)
        server = found.server()
        return f"service IP {found.address()} is {f'on {server}' if server else 'not active on any node'}"

    def is_whole(self, name: str) -> bool:
        """Return whether this machine reports a quorum and both disks, and both are equal."""
        status = PacemakerCluster(self.lab).status(name)
        return status.quorum and both_have_disks(status)[0] and super().is_whole(name)

    def settle(self) -> None:
        """Let the first machine serve, and fill its redo log."""
        first = self.lab.topology.source.name
        self.take_over(first)
        with _left_alone(self.lab.node(first)):
            super().settle()

    @contextmanager
    def arranged(self, case: Case) -> Iterator[Watch]:
        with super().arranged(case) as watch:
            # Pacemaker must not have moved the service.
            yield AlsoProves(watch, lambda: prove_service(self.lab))

    def take_over(self, name: str, allow_data_loss: bool = False) -> TakenOver:  # noqa: ARG002 - no old data serve
        """Move the service to this machine, by a standby of its peer; Pacemaker promotes no outdated data."""
        self.lab.topology.node(name)
        serving = PacemakerCluster(self.lab).wait_until_served_by(*self.names)
        if serving == name:
            return TakenOver(serving, name)
        moved = self.standby(serving)
        self.online(serving)
        PacemakerCluster(self.lab).wait_until_served_by(name)
        return TakenOver(serving, name, seconds=moved.seconds)

    def switch_over(self, name: str) -> TakenOver:
        return self.take_over(name)

    def take_over_after_loss(self, name: str) -> TakenOver:
        """Wait until Pacemaker has moved the service, which is what a drill measures."""
        PacemakerCluster(self.lab).wait_until_served_by(name)
        old = drbd.other(self.lab, name).node
        return TakenOver(old, name, replaced=[old])

    def take_back(self, name: str, discard_errant: bool = False, tell: Tell = quiet) -> TakenBack:
        """Start the machine first if its watchdog has switched it off."""
        self.lab.topology.node(name)
        if self.lab.node(name).state()[0] == "exited":
            self.wait_until_startable([name], tell)
            self.lab.node(name).start_again()
        return super().take_back(name, discard_errant, tell)

    def _discard(self, victim: Peer, survivor: Peer, found: dict[str, ResourceStatus]) -> TakenBack:
        if found[victim.node].primary:
            raise LabError(
                f"{victim.node} runs the service, and Pacemaker would treat its stop as a failure",
                "a victim that does not run the service",
                f"./lab rejoin {survivor.node} --discard-errant",
            )
        return super()._discard(victim, survivor, found)

    def standby(self, name: str) -> TakenOut:
        """Take a machine out of service; LabError if the service runs there and the peer cannot take over."""
        cluster, status = PacemakerCluster(self.lab), self._status_with(name)
        other = drbd.other(self.lab, name)
        serves = status.serving == name
        _refuse_without_peer(status, other) if serves else _refuse_unless_served(status, other.node)
        began = clock.timer()
        cluster.tell("standby", name)
        if serves:
            cluster.wait_until_served_by(other.node)
        moved = clock.timer() - began if serves else None

        def look() -> tuple[bool, str]:
            now = cluster.status()
            return not any(each.node == name and each.role != STOPPED for each in now.resources), now.words()

        clock.wait_while_moving(look, f"{name} to stop its resources", POLL_SECONDS)
        return TakenOut(name, moved)

    def _status_with(self, name: str) -> ClusterStatus:
        status = PacemakerCluster(self.lab).status()
        refuse_unknown(f"machine of {self.lab.name}", name, status.members, "./lab status")
        return status

    def online(self, name: str, tell: Tell = quiet) -> TakenBack:  # noqa: ARG002 - Pacemaker shows no progress
        """Take a machine into service again, and wait until it is a member and both disks are equal."""
        status = self._status_with(name)
        for peer in drbd.peers(self.lab).values():
            peer.refuse_unless_running()
        began = clock.timer()
        if status.members[name].standby:
            PacemakerCluster(self.lab).tell("online", name)
        self.wait_until_whole()
        return TakenBack(name, drbd.other(self.lab, name).node, seconds=clock.timer() - began)

    def wait_until_whole(self) -> None:
        """Wait until both machines are members with equal disks; a machine that was down may have to boot."""
        # One that boots faster than the ring's timeout is still a member of its peer's old view.
        for peer in drbd.peers(self.lab).values():
            peer.wait_until_answers()
        clock.wait_while_moving(
            lambda: both_have_disks(PacemakerCluster(self.lab).status()),
            "both machines in the cluster with their disks",
            every=POLL_SECONDS,
            hint="./lab status",
        )
        drbd.wait_until_whole(self.lab)

    def wait_until_startable(self, names: Sequence[str], tell: Tell) -> None:
        """Wait until the running machine has fenced these: one that is started sooner is reset by its watchdog."""

        def look() -> tuple[bool, str]:
            running = [name for name in self.names if name not in names and self.lab.node(name).state()[0] == "running"]
            return PacemakerCluster(self.lab).fenced(names, running[0]) if running else (True, "no machine runs")

        if look()[0]:
            return
        tell(f"waiting until the cluster has fenced {' '.join(names)}; a machine that starts sooner would be reset")
        hint = f"./lab status --lab {self.lab.name}"
        clock.wait_while_moving(look, f"{' '.join(names)} to be fenced", POLL_SECONDS, hint)


# --- proofs -----------------------------------------------------------------------------------------------------------


def prove_service(lab: Lab) -> list[Proof]:
    """Return proofs of a cluster with a quorum whose resources all run, and of a service at its own address."""
    found = PacemakerCluster(lab)
    server, status = found.server(), found.status()
    said = f"service IP {found.address()} is on {server or 'no node'}"
    return [
        *_prove_status(status),
        Proof("clients reach the service at its address", said, bool(server) and server == status.serving),
    ]


def _prove_status(status: ClusterStatus) -> list[Proof]:
    online = [name for name, member in status.members.items() if member.online and not member.standby]
    disks = disks_of(status)
    service = {(each.node, each.role) for each in status.resources if each.part_of == SERVICE}
    down = [each for each in status.resources if each.failed or not each.node]
    all_run = not down and set(disks) == set(status.members) and service == {(disks[0], STARTED)}
    return [
        Proof("one cluster", status.who(), status.quorum and len(online) == len(status.members) == PAIR),
        Proof("its resources run", "; ".join(status.runs(node) for node in status.members), all_run),
    ]


def disks_of(status: ClusterStatus) -> list[str]:
    """Return the machines whose replicated disk is promoted, and those where it is not."""
    return [status.where(COPY, role) for role in (PROMOTED, UNPROMOTED)]


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


def _refuse_unless_served(status: ClusterStatus, other: str) -> None:
    """Refuse unless the other machine serves: just after a node is lost, Pacemaker still reports it as serving."""
    member = status.members[other]
    if status.serving != other or not member.online or member.unclean:
        raise LabError(
            f"{other} does not run the service: {status.words()}", "a service that keeps running", "./lab status"
        )


def _refuse_without_peer(status: ClusterStatus, other: Peer) -> None:
    other.refuse_unless_running()
    peer = status.members[other.node]
    if not peer.online or peer.unclean or peer.standby or not status.where(COPY, UNPROMOTED):
        found = f"{other.node} cannot take over: {status.who()}"
        raise LabError(found, "a peer that is online with its disk", f"./lab online {other.node}")
    # Pacemaker promotes no outdated data, and would have stopped the service by then.
    disk = other.status()
    if not disk.whole:
        found = f"{other.node} cannot take over: {disk.words()}"
        raise LabError(found, "a peer with the same data", "./lab status")


def both_have_disks(status: ClusterStatus) -> tuple[bool, str]:
    # Just after a node is lost, Pacemaker still reports its last state.
    online = {name for name, member in status.members.items() if member.online and not member.unclean}
    return set(disks_of(status)) == online == set(status.members), status.words()
