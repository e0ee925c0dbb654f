"""Full disks under nodes: a file takes all free space, and is removed on recovery."""

from collections.abc import Sequence

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import EMULATED_DISKS, NODES
from replication_lab.world.disks import array as arrays
from replication_lab.world.docker.lab import Lab

FILE, STEP = ".full", 1 << 20
# In ever smaller steps, and the rest byte by byte: the space that a file system reserves is not documented.
FILL = (
    f"touch {FILE}; for step in 256MiB 32MiB 4MiB 1MiB; do "
    f"while fallocate --offset $(stat --format=%s {FILE}) --length $step {FILE} 2>/dev/null; do :; done; done; "
    f"cat /dev/zero >>{FILE}.rest 2>/dev/null; sync --file-system .; true"
)
# MiB. The server writes during the fault, and btrfs keeps a metadata chunk of 256 MiB, so less space may be free.
SPARE = (64 + 256) << 20


@fault(
    "disk-full",
    acts_on=NODES,
    does="a file fills the file system of the node's data",
    proof="less than 1 MiB is free; after recovery: the space is free again",
    needs=(EMULATED_DISKS,),
)
class DiskFull(OnNodes):
    """Nodes whose file system has no space for another page; recovery frees the space again."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._arrays = {node: arrays.array(lab, node) for node in self.nodes}
        self._room = {node: array.free_bytes() for node, array in self._arrays.items()}

    def inject(self) -> None:
        self.each(lambda node: self._arrays[node].in_filesystem("sh", "-c", FILL))

    def acts(self, node: str) -> Proof:
        room = self._arrays[node].free_bytes()
        return Proof(
            what=f"{node} has no free space", expected="less than 1 MiB", found=f"{room >> 10} KiB", ok=room < STEP
        )

    def recover(self) -> None:
        self.each(lambda node: self._arrays[node].in_filesystem("rm", "-f", FILE, f"{FILE}.rest"))

    def is_undone(self, node: str) -> Proof:
        try:
            room = self._arrays[node].free_bytes()
        except LabError:
            room = 0
        least = self._room[node] - SPARE
        return Proof(
            what=f"{node} has free space again",
            expected=f"at least {least >> 20} MiB",
            found=f"{room >> 20} MiB",
            ok=room >= least,
        )
