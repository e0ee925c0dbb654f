"""A disk under a node that answers every request with EIO, and is later replaced by a new one."""

from collections.abc import Sequence

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES, Need
from replication_lab.world.disks import array as arrays
from replication_lab.world.docker.lab import Lab

DISK = "disk1"


MIRRORED_DISKS = Need(
    "nodes on RAID1",
    lambda topology, targets: all(node in topology.storage and topology.storage[node].survives for node in targets),
    "{fault} in {topology}, where not every target is on RAID1",
    "nodes on RAID1, as in the topology raid: their data can be rebuilt",
)


@fault(
    "disk-fail",
    acts_on=NODES,
    does="the first disk answers every request with EIO; recovery replaces and rebuilds it",
    proof="the disk reports the failure, and requests ended with EIO; after recovery: the disk is good",
    needs=(MIRRORED_DISKS,),
)
class DiskFail(OnNodes):
    """Nodes on RAID1 whose first disk fails; recovery replaces and rebuilds it."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._arrays = {node: arrays.array(lab, node) for node in self.nodes}
        for node, array in self._arrays.items():
            if not array.storage.survives:
                raise LabError(
                    f"{node} is on {array.storage.level}: losing one disk loses all data",
                    "raid1, which can rebuild a lost disk",
                    "./lab disk --help",
                )

    def inject(self) -> None:
        self.each(lambda node: self._arrays[node].disk(DISK).fail())

    def acts(self, node: str) -> Proof:
        """Prove by the disk's state that it fails; in a later call also that the array has met the failure."""
        stats = self._arrays[node].disk(DISK).stats()
        return Proof(
            what=f"{DISK} of {node} fails",
            expected="every request to end with EIO",
            found=f"{stats.errors} requests that ended with EIO" if stats.failed else "a good disk",
            ok=stats.failed,
        )

    def recover(self) -> None:
        self._errors = {node: self._arrays[node].disk(DISK).stats().errors for node in self.nodes}
        self.each(lambda node: self._arrays[node].replace(DISK))

    def _had_effect(self, node: str) -> Proof:
        """Prove that requests failed: a failed disk without any reads or writes shows nothing."""
        errors = self._errors[node]
        return Proof(
            what=f"the array of {node} hit an I/O error",
            expected="requests answered with EIO",
            found=f"{errors} requests answered with EIO",
            ok=errors > 0,
        )

    def is_undone(self, node: str) -> Proof:
        failed = self._arrays[node].disk(DISK).stats().failed
        return Proof(
            what=f"{DISK} of {node} is good again",
            expected="a good disk",
            found="a failed disk" if failed else "a good disk",
            ok=not failed,
        )
