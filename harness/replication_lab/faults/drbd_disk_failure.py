"""A disk under DRBD that answers every request with EIO, so that DRBD detaches it; later repaired and attached."""

from collections.abc import Sequence

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults._replicated_disk import REPLICATED_DISK
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import DISKLESS

DETACH_SECONDS = 20


@fault(
    "drbd-disk-fail",
    acts_on=NODES,
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
