"""The disks under nodes: given limits, proved by direct I/O; one that fails, a full file system, slow disks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import msgspec

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import EMULATED_DISKS, Need
from replication_lab.model.lab.disk import Limits
from replication_lab.probes import disk_activity
from replication_lab.world import at_once, requests_made
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array, Measured
from replication_lab.world.disks.spindle import Spindle, kept
from replication_lab.world.docker.lab import Lab


class DiskLimits(OnNodes):
    """Nodes whose disks have these limits; recovery restores the previous ones."""

    def __init__(self, lab: Lab, nodes: Sequence[str], limits: Limits):
        super().__init__(lab, nodes)
        self._limits = limits
        self._arrays = [arrays.array(lab, node) for node in nodes]
        self._had = [array.limits() for array in self._arrays]
        self._changed = ExitStack()
        self._is_measured = False

    def inject(self) -> None:
        self._changed.enter_context(changed(self._arrays, self._limits))

    def verify(self) -> list[Proof]:
        """Prove the limits by direct I/O in the first call, and by the disks' reported limits in later calls.

        Under load a measurement would queue behind the server's requests.
        """
        if self._is_measured:
            return [array_is_unchanged(array, self._limits) for array in self._arrays]
        self._is_measured = True
        found = at_once.of_each(lambda array: proofs(array, dict.fromkeys(array.disks, self._limits)), self._arrays)
        return [proof for each in found for proof in each]

    def recover(self) -> None:
        self._changed.close()

    def verify_recovered(self) -> list[Proof]:
        return [
            set_to(array.limits(), had, f"the disks of {array.node} have their previous limits")
            for array, had in zip(self._arrays, self._had, strict=True)
        ]


def changed(arrays_: Iterable[Array], limits: Limits) -> AbstractContextManager[None]:
    """Set limits of the arrays' disks within the block, or none (`Limits()`), without proof; then restore theirs."""
    return limited([spindle for array in arrays_ for spindle in array.disks.values()], limits)


@contextmanager
def limited(disks: Sequence[Spindle], limits: Limits) -> Iterator[None]:
    """Set the limits of these disks within the block, without proof; restore the previous ones at its end."""
    before = at_once.of_each(lambda spindle: spindle.limits(), disks)
    try:
        limit(disks, limits)
        yield
    finally:
        at_once.of_each(lambda was: was[0].limit(was[1]), zip(disks, before, strict=True))


def limit(disks: Sequence[Spindle], limits: Limits) -> None:
    """Set the limits of these disks at the same time: a disk without limits must not run ahead of the others."""
    at_once.of_each(lambda spindle: spindle.limit(limits), disks)


def proofs(array: Array, limits: Mapping[str, Limits]) -> list[Proof]:
    """Return proofs that each disk keeps its given limits, by direct I/O on a part that holds no data."""
    found = arrays.measured(array, dict(limits))
    return [_proof(limits[name], measured) for name, measured in found.items()]


def _proof(limits: Limits, measured: Measured) -> Proof:
    both = (("reads/s", measured.read_iops, limits.read_iops), ("writes/s", measured.write_iops, limits.write_iops))
    said = ", ".join(f"{found:.0f} {what} (limit {limit or 'none'})" for what, found, limit in both)
    ok = arrays.keeps(measured, limits)
    # A disk below its limit means a busy machine: a spindle delays requests and never speeds them up.
    remedy = "" if ok else "; use a less busy host or a slower --disk (see compose/storage/disks.yaml)"
    return Proof(
        what=f"{measured.disk} keeps its limits",
        expected=f"its limits (±{arrays.WITHIN:.0%})",
        found=f"{said}{remedy}",
        ok=ok,
        slow=not ok and all(limit is None or found <= (1 + arrays.WITHIN) * limit for _, found, limit in both),
    )


def set_to(reported: Mapping[str, Limits], limits: Mapping[str, Limits], what: str) -> Proof:
    """Return a proof that each disk reports its given limits."""
    others = [name for name, found in reported.items() if found != kept(limits[name])]
    wanted = "the limits of the case"
    found = f"other limits on {', '.join(others)}" if others else wanted if reported else "no disk reported"
    return Proof.same(what, found, wanted)


def is_unchanged(node: str, disk: Spindle, limits: Limits) -> Proof:
    """Return a proof that a machine's disk reports the limits that it was given."""
    return set_to({node: disk.limits()}, {node: limits}, f"no other command changed the disk of {node}")


def array_is_unchanged(array: Array, limits: Limits) -> Proof:
    """Return a proof that each disk of an array reports the limits that all were given."""
    wanted = dict.fromkeys(array.disks, limits)
    return set_to(array.limits(), wanted, f"no other command changed the disks of {array.node}")


DISK = "disk1"


MIRRORED_DISKS = Need(
    "nodes on RAID1",
    lambda topology, targets: all(node in topology.storage and topology.storage[node].survives for node in targets),
    "{fault} in {topology}, where not every target is on RAID1",
    "nodes on RAID1, as in the topology raid: their data can be rebuilt",
)


class OnArrays(OnNodes):
    """A fault of the arrays of nodes."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._arrays = {node: arrays.array(lab, node) for node in self.nodes}


@fault(
    "disk-fail",
    does="the first disk answers every request with EIO; recovery replaces and rebuilds it",
    proof="the disk reports the failure, and requests ended with EIO; after recovery: the disk is good",
    needs=(MIRRORED_DISKS,),
)
class DiskFail(OnArrays):
    """Nodes on RAID1 whose first disk fails; recovery replaces and rebuilds it."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
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
        return Proof.same(
            f"{DISK} of {node} is good again", "a failed disk" if failed else "a good disk", "a good disk"
        )


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
    does="a file fills the file system of the node's data; a server that ends because of it is started again with the "
    "recovery",
    proof="less than 1 MiB is free; after recovery: the space is free again",
    needs=(EMULATED_DISKS,),
)
class DiskFull(OnArrays):
    """Nodes whose file system has no space for another page; recovery frees the space again.

    Some servers end then; `ended` are the nodes of those.
    """

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self.ended: list[str] = []
        self._room = {node: array.free_bytes() for node, array in self._arrays.items()}

    def inject(self) -> None:
        self.each(self._fill)

    def _fill(self, node: str) -> None:
        # What a server or a manager does from now on may follow from it.
        with requests_made.noted("disk-full", node):
            self._arrays[node].in_filesystem("sh", "-c", FILL)

    def acts(self, node: str) -> Proof:
        room = self._arrays[node].free_bytes()
        return Proof(
            what=f"{node} has no free space", expected="less than 1 MiB", found=f"{room >> 10} KiB", ok=room < STEP
        )

    def recover(self) -> None:
        self.each(lambda node: self._arrays[node].in_filesystem("rm", "-f", FILE, f"{FILE}.rest"))
        self.ended = [node for node in self.nodes if self.lab.node(node).state()[0] == "exited"]
        for node in self.ended:
            self.lab.node(node).start_again()

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


WRITE_IOPS = 20
# The share of busy time below which a load does not show the disks' cost.
BUSY = 0.5


@fault(
    "disk-slow",
    does="each disk does at most 20 writes/s",
    proof="the disks have the limit, were busy for at least half of the time and wrote no faster; "
    "after recovery: they have their previous limits",
    needs=(EMULATED_DISKS,),
)
class DiskSlow(OnArrays):
    """Nodes whose disks do 20 writes a second; recovery restores their limits."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
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
        return array_is_unchanged(self._arrays[node], self._slow(node))

    def is_undone(self, node: str) -> Proof:
        return array_is_unchanged(self._arrays[node], self._had[node])

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
