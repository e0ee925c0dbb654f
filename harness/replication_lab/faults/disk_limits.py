"""Disks with given limits: set, proved by direct I/O, and set back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from replication_lab.faults._nodes import OnNodes
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.world import at_once
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array, Measured
from replication_lab.world.disks.spindle import Spindle
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
            return [self._is_unchanged(array) for array in self._arrays]
        self._is_measured = True
        found = at_once.of_each(lambda array: proofs(array, dict.fromkeys(array.disks, self._limits)), self._arrays)
        return [proof for each in found for proof in each]

    def _is_unchanged(self, array: Array) -> Proof:
        asked = dict.fromkeys(array.disks, self._limits)
        return set_to(array.limits(), asked, f"no other command changed the disks of {array.node}")

    def recover(self) -> None:
        self._changed.close()

    def verify_recovered(self) -> list[Proof]:
        return [
            set_to(array.limits(), had, f"the disks of {array.node} have their previous limits")
            for array, had in zip(self._arrays, self._had, strict=True)
        ]


@contextmanager
def changed(arrays_: Iterable[Array], limits: Limits) -> Iterator[None]:
    """Set limits of the arrays' disks within the block, or none (`Limits()`), without proof; then restore theirs."""
    with limited([spindle for array in arrays_ for spindle in array.disks.values()], limits):
        yield


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
    others = [name for name, found in reported.items() if found != limits[name]]
    said = (
        f"other limits on {', '.join(others)}"
        if others
        else "the limits of the case"
        if reported
        else "no disk reported"
    )
    return Proof(what=what, expected="the limits of the case", found=said, ok=bool(reported) and not others)


def is_unchanged(node: str, disk: Spindle, limits: Limits) -> Proof:
    """Return a proof that a machine's disk reports the limits that it was given."""
    return set_to({node: disk.limits()}, {node: limits}, f"no other command changed the disk of {node}")
