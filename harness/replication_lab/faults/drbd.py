"""The faults of a replicated disk: a failed disk, two primaries, and a power loss of machines with their disks."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import UNMANAGED, Need
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import DISKLESS

REPLICATED_DISK = Need(
    "machines with a replicated disk",
    lambda topology, _: bool(replication.kind_of(topology).protocols),
    "{fault} in {topology}",
    "a topology of drbd",
)


DETACH_SECONDS = 20


@fault(
    "drbd-disk-fail",
    does="DRBD's disk answers with EIO, and DRBD detaches it; recovery repairs and attaches it",
    proof="DRBD reports `Diskless`, and requests ended with EIO; "
    "after recovery: the disk is attached, and was `Diskless` until then",
    needs=(REPLICATED_DISK,),
)
class DrbdDiskFail(OnNodes):
    """Machines of a DRBD resource whose disk fails; recovery attaches it, and DRBD resyncs it from the peer."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        peers = drbd.peers(lab)
        self._peers = {node: peers[node] for node in self.nodes}

    def inject(self) -> None:
        self.each(lambda node: self._peers[node].disk.fail())

    def acts(self, node: str) -> Proof:
        """Prove that DRBD met the failure and detached the disk: without reads or writes the failure shows nothing."""
        peer = self._peers[node]
        clock.wait_until(lambda: peer.status().disk == DISKLESS, f"DRBD on {node} to hit an I/O error", DETACH_SECONDS)
        stats = peer.disk.stats()
        return Proof(
            what=f"the disk of {node} fails",
            expected="requests answered with EIO",
            found=f"{stats.errors} requests that ended with EIO" if stats.failed else "a good disk",
            ok=stats.failed and stats.errors > 0,
        )

    def recover(self) -> None:
        self.each(lambda node: self._peers[node].disk.heal())
        self._before = {node: peer.wait_until_answers().disk for node, peer in self._peers.items()}
        self.each(self._attach)

    def _attach(self, node: str) -> None:
        # A disk that DRBD never detached cannot be attached; the error of that would hide why the proof failed.
        if self._before[node] == DISKLESS:
            self._peers[node].tell("attach")

    def is_undone(self, node: str) -> Proof:
        before, after = self._before[node], self._peers[node].status().disk
        return Proof(
            what=f"{node} worked without its disk until the recovery",
            expected=f"{DISKLESS}, and attached",
            found=f"{before}, and {after}",
            ok=before == DISKLESS != after,
        )


NOTICED_SECONDS, MET_SECONDS = 30, 60


@fault(
    "drbd-split-brain",
    does="the link is cut, and the target becomes a second primary; recovery restores the link "
    "and discards the changes of the target",
    proof="there are two primaries; after recovery: DRBD has reported the split brain on reconnecting",
    needs=(REPLICATED_DISK, UNMANAGED),
    one_target=True,
)
class SplitBrain(OnNodes):
    """The machine to promote beside the primary; it is the victim: recovery discards its own writes."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        (self.victim,) = (drbd.peers(lab)[node] for node in self.nodes)
        self._links = [
            lab.link(link.name) for node in lab.topology.nodes for link in lab.topology.links_from(node.name)
        ]
        self._detected = False

    def inject(self) -> None:
        for link in self._links:
            link.cut()
        clock.wait_until(
            lambda: self.victim.status().peer_role != drbd.PRIMARY,
            f"{self.victim.node} to lose its connection to the primary",
            NOTICED_SECONDS,
        )
        self.victim.tell("promote")
        self.victim.wait_until_serves()

    def verify(self) -> list[Proof]:
        found = {node: peer.status().role for node, peer in drbd.peers(self.lab).items()}
        return [
            Proof(
                what="there are two primaries",
                expected=f"{drbd.PRIMARY} on both machines",
                found=", ".join(f"{node} {role}" for node, role in found.items()),
                ok=set(found.values()) == {drbd.PRIMARY},
            )
        ]

    def recover(self) -> None:
        """Restore the link, wait until DRBD detects the split brain, and discard the victim's writes."""
        for link in self._links:
            link.enable()
        if not self.victim.status().primary:
            return
        peers = drbd.peers(self.lab).values()
        met = "the split brain to be detected"
        clock.wait_until(lambda: any(peer.status().split_brain for peer in peers), met, MET_SECONDS)
        self._detected = True
        replication.of(self.lab).take_back(self.victim.node, discard_errant=True)

    def verify_recovered(self) -> list[Proof]:
        found = "detected" if self._detected else "not detected"
        return [Proof.same("DRBD detected the split brain when the machines reconnected", found, "detected")]


@fault(
    "power-cut",
    does="machines and their disks lose power, and all unflushed data is lost; "
    "recovery starts them and makes the old primary primary again",
    proof="the machines exit with status 137, and their disks have stopped; after recovery: the server answers again",
    needs=(REPLICATED_DISK, UNMANAGED),
    ends_servers=True,
)
class PowerCut(Kill):
    """Machines of a DRBD resource; recovery makes the former primary primary again, unless another was promoted."""

    said = "without power"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        peers = drbd.peers(lab)
        self._peers = {node: peers[node] for node in self.nodes}
        self._primary = ""
        self._lost: dict[str, int] = {}

    def inject(self) -> None:
        self._primary = drbd.primary(self.lab).node
        super().inject()

    def end(self, node: str) -> None:
        """End the machine before its disk: a machine without its disk answers no command."""
        super().end(node)
        with self.lab.service(f"{node}-{drbd.DISK}").ending():
            self._lost[node] = self._peers[node].disk.power_cut()

    def verify(self) -> list[Proof]:
        return [*super().verify(), *(self._without_disk(node) for node in self.nodes)]

    def _without_disk(self, node: str) -> Proof:
        state = self.lab.service(f"{node}-{drbd.DISK}").state()[0]
        return Proof(
            what=f"the disk of {node} is without power",
            expected="exited",
            found=f"{state}; blocks of {self._lost[node]} bytes were not flushed",
            ok=state == "exited",
        )

    def recover(self) -> None:
        for peer in self._peers.values():
            peer.power_on()
        # Unless another machine was promoted during the fault.
        if not any(peer.status().primary for peer in drbd.peers(self.lab).values()):
            drbd.wait_until_whole(self.lab)
            replication.of(self.lab).take_over(self._primary)
