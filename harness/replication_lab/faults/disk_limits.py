"""Disks that are as slow as they are asked to be: set, proved by direct I/O, and set back."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from replication_lab.model.disk import Limits
from replication_lab.model.errors import LabError
from replication_lab.model.record import Proof
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array, Measured


@contextmanager
def limited(arrays_: Iterable[Array], limits: Limits) -> Iterator[list[Proof]]:
    """Within the block each disk of the arrays has these limits, and afterwards those that it had.

    Yields the proofs: what each disk did by direct I/O, within 5 % of what was asked. LabError where one does not
    keep its limits: a load on such disks would show nothing.
    """
    chosen = list(arrays_)
    with changed(chosen, limits), ThreadPoolExecutor(len(chosen)) as pool:
        found = [proof for each in pool.map(lambda array: proofs(array, limits), chosen) for proof in each]
        if broken := [proof for proof in found if not proof.ok]:
            said = "; ".join(f"{proof.what}: {proof.found}" for proof in broken)
            raise LabError(f"not so: {said}", broken[0].expected, "./lab disk list")
        yield found


@contextmanager
def lifted(arrays_: Iterable[Array]) -> Iterator[None]:
    """Within the block the disks of the arrays have no limits, and afterwards those that they had."""
    with changed(arrays_, Limits()):
        yield


@contextmanager
def changed(arrays_: Iterable[Array], limits: Limits) -> Iterator[None]:
    """Within the block the disks of the arrays have these limits, unproved, and afterwards those that they had.

    All at the same time: what has no limit any more must not run ahead of the others.
    """
    disks = [spindle for array in arrays_ for spindle in array.disks.values()]
    with ThreadPoolExecutor(len(disks)) as pool:
        before = list(pool.map(lambda spindle: spindle.limits(), disks))
        try:
            list(pool.map(lambda spindle: spindle.limit(limits), disks))
            yield
        finally:
            list(pool.map(lambda spindle, had: spindle.limit(had), disks, before))


def proofs(array: Array, limits: Limits) -> list[Proof]:
    """Each disk against the limits that were asked for, not against those that it says it has."""
    found = arrays.measured(array, dict.fromkeys(array.disks, limits))
    return [_proof(limits, measured) for measured in found.values()]


def _proof(limits: Limits, measured: Measured) -> Proof:
    return Proof(
        what=f"{measured.disk} keeps its limits",
        expected=f"{_said(limits.read_iops)} reads/s and {_said(limits.write_iops)} writes/s, 5 % more or less",
        found=f"{measured.read_iops:.0f} reads/s and {measured.write_iops:.0f} writes/s",
        ok=arrays.keeps(measured, limits),
    )


def _said(limit: int | None) -> str:
    return "any" if limit is None else str(limit)


def unchanged(array: Array, limits: Limits) -> Proof:
    """Whether each disk is still set to these limits."""
    others = [name for name, found in array.limits().items() if found != limits]
    return Proof(
        what=f"nobody changed the disks of {array.node}",
        expected="the limits of the case",
        found=f"others on {', '.join(others)}" if others else "the limits of the case",
        ok=not others,
    )
