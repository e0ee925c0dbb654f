"""Disks under nodes that become slow while they are used."""

from collections.abc import Sequence

import msgspec

from replication_lab.faults import disk_limits
from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import EMULATED_DISKS, NODES
from replication_lab.model.lab.disk import Limits
from replication_lab.probes import disk_activity
from replication_lab.world.disks import array as arrays
from replication_lab.world.docker.lab import Lab

WRITE_IOPS = 20
# The share of busy time below which a load does not show the disks' cost.
BUSY = 0.5


@fault(
    "disk-slow",
    acts_on=NODES,
    does="each disk does at most 20 writes/s",
    proof="the disks have the limit, were busy for at least half of the time and wrote no faster; "
    "after recovery: they have their previous limits",
    needs=(EMULATED_DISKS,),
)
class DiskSlow(OnNodes):
    """Nodes whose disks do 20 writes a second; recovery restores their limits."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._arrays = {node: arrays.array(lab, node) for node in self.nodes}
        self._had = {node: next(iter(array.disks.values())).limits() for node, array in self._arrays.items()}

    def inject(self) -> None:
        self.each(lambda node: self._arrays[node].limit(self._slow(node)))
        self._before = {node: disk_activity.look(array) for node, array in self._arrays.items()}

    def _slow(self, node: str) -> Limits:
        return msgspec.structs.replace(self._had[node], write_iops=WRITE_IOPS)

    def acts(self, node: str) -> Proof:
        """Prove by the disks' reported limits that they are slow.

        A measurement by I/O would queue behind the server's requests. At the end it is proved that the disks were busy.
        """
        return self._is(node, self._slow(node))

    def is_undone(self, node: str) -> Proof:
        return self._is(node, self._had[node])

    def _is(self, node: str, limits: Limits) -> Proof:
        array = self._arrays[node]
        return disk_limits.set_to(
            array.limits(), dict.fromkeys(array.disks, limits), f"no other command changed the disks of {node}"
        )

    def recover(self) -> None:
        self._after = {node: disk_activity.look(array) for node, array in self._arrays.items()}
        self.each(lambda node: self._arrays[node].limit(self._had[node]))

    def _had_effect(self, node: str) -> Proof:
        array = self._arrays[node]
        done = disk_activity.work(array, self._before[node], self._after[node])
        at_once = 1 if array.storage.survives else array.storage.members
        return Proof(
            what=f"the disks of {node} were slow, and in use",
            expected=f"busy for at least {BUSY:.0%} of the time, with at most {WRITE_IOPS * at_once} writes/s",
            found=f"busy for {done.busy:.0%}, {done.writes_per_second:.1f} writes/s",
            ok=done.busy >= BUSY and done.writes_per_second <= WRITE_IOPS * at_once * (1 + arrays.WITHIN),
        )
