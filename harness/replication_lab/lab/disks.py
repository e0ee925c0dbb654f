"""The disks under a lab's nodes: proved, changed while they are used, and checked by reading them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from replication_lab import replication
from replication_lab.faults import disks
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.replication.role_changes import quiet
from replication_lab.world import at_once
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.disks.spindle import SWITCH, Spindle
from replication_lab.world.docker.lab import Lab

# With less free space than this a server cannot write anything.
FULL_BYTES = 1 << 20
# A text that is stored in more sectors than this is a mistake of the user.
SECTOR, MOST_SECTORS = 512, 100


def prove(lab: Lab) -> list[Proof]:
    """Prove that each node's data are on its array, and that each disk keeps the limits that it was made with."""
    found = list(arrays.arrays(lab).values())
    kept = at_once.of_each(kept_limits, found)
    return [proof for array, limits in zip(found, kept, strict=True) for proof in (_mounted(array), *limits)]


def check(lab: Lab, node: str, tell: Tell = quiet) -> list[Proof]:
    """Prove that a node's data are on its array and can be read, and that each disk keeps its current limits.

    Where disks are replicated, prove that both have the same blocks; `tell` gets the progress.
    """
    kind = replication.of(lab)
    if kind.in_machines:
        lab.topology.node(node)
        differing, copy = kind.compared(tell)["differing_kib"], kind.after_disk_healed.format(node="PEER")
        repair = f"; to copy the primary's blocks to its peer: {copy}" if differing else ""
        return [Proof("all blocks of both disks are equal", f"{differing} KiB differ{repair}", not differing)]
    array = array_of(lab, node)
    lost = array.unreadable()
    readable = Proof(
        f"{node}'s data can be read",
        f"not {', '.join(lost[:5])} ({len(lost)} files)" if lost else "every file",
        not lost,
    )
    return [_mounted(array), readable, *kept_limits(array)]


def _mounted(array: Array) -> Proof:
    what = f"{array.node} on {array.storage.level} of {array.storage.members} {array.storage.disk}"
    mounted = array.is_mounted()
    return Proof(f"{what} by {array.storage.by}", "mounted" if mounted else "not mounted", mounted)


def kept_limits(array: Array) -> list[Proof]:
    """Prove that each disk keeps its current limits."""
    limits = array.limits()
    if all(one == Limits() for one in limits.values()):
        return [Proof(f"{array.node}'s disks", "have no limits", True)]
    return disks.proofs(array, limits)


def _spindle(lab: Lab, node: str, disk: str) -> Spindle:
    """Return a disk of an array, or one under replication."""
    kind = replication.of(lab)
    if not kind.in_machines:
        return arrays.array(lab, node).disk(disk)
    own = kind.disks(lab.topology.node(node).name)
    if disk not in own:
        raise unknown_name(f"disk of {node}", disk, list(own), "./lab disk list")
    return own[disk]


def fail(lab: Lab, node: str, disk: str) -> None:
    """Let every request to a disk fail with EIO, until it is healed."""
    _spindle(lab, node, disk).fail()


def change_limits(lab: Lab, node: str, disk: str, changes: Sequence[str]) -> Limits:
    """Change some limits of a disk (NAME=VALUE texts) while it is used; return the resulting limits."""
    spindle = _spindle(lab, node, disk)
    before = spindle.limits()
    changed = msgspec.structs.replace(before, **dict(_change(text) for text in changes))
    spindle.limit(changed)
    return changed


def array_of(lab: Lab, node: str) -> Array:
    """Return the array under a node's data; LabError if its disk belongs to replication, or if it has none."""
    if replication.kind_of(lab.topology).in_machines:
        raise LabError(
            f"the disk of {node} in {lab.name} is replicated by {lab.topology.replication}, not part of an array",
            "a disk of a RAID array",
            f"./lab drill {lab.topology.name} --drill fail-disk",
        )
    return arrays.array(lab, node)


def _change(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name not in Limits.__struct_fields__:
        raise unknown_name("limit", name, Limits.__struct_fields__, "./lab disk limit --help")
    if name == "write_cache":
        if value not in SWITCH:
            raise LabError(f"write_cache={value}", "on or off", "./lab disk limit --help")
        return name, SWITCH[value]
    if not value.lstrip("-").isdigit():
        raise LabError(f"{text}: {value!r} is not a number", "a whole number", "./lab disk limit --help")
    return name, int(value)


def said(limits: Limits) -> str:
    """Return limits in words."""
    rates = (("reads/s", limits.read_iops), ("writes/s", limits.write_iops), ("bytes/s", limits.bandwidth))
    words = [f"{'any' if limit is None else limit} {unit}" for unit, limit in rates]
    cache = f"write cache {'on' if limits.write_cache else 'off'}"
    return ", ".join([*words, f"{limits.flush_us} µs per flush", cache])


def corrupt(lab: Lab, node: str, disk: str, text: str) -> list[int]:
    """Invert, silently, a disk's sectors that hold a text, in a table and in logs; return their offsets in bytes."""
    spindle = _spindle(lab, node, disk)
    sectors = sorted({offset // SECTOR * SECTOR for offset in spindle.find(text)}) if text else []
    if not 0 < len(sectors) <= MOST_SECTORS:
        raise LabError(
            f"{disk} of {node} holds {text!r} in {len(sectors) or 'no'} sectors",
            f"a text in 1 to {MOST_SECTORS} sectors: that of a row on this disk (on RAID0 it may be on another disk)",
            f'./lab sql {node} -e "FLUSH TABLES lab.t FOR EXPORT"',
        )
    for sector in sectors:
        spindle.corrupt(sector)
    return sectors


def full(array: Array) -> str:
    """Return a message if the array is full, else an empty string (also if it cannot be queried)."""
    with suppress(LabError):
        if (left := array.free_bytes()) < FULL_BYTES:
            return f"{array.node}'s disks are full: {left >> 10} KiB are free"
    return ""


def heal(lab: Lab, node: str, disk: str) -> None:
    """Let a failed disk answer again; LabError for RAID1, whose other disks hold newer data under the same numbers."""
    spindle = _spindle(lab, node, disk)
    array = arrays.arrays(lab).get(node)
    if array and array.storage.survives and spindle.stats().errors:
        raise LabError(
            f"cannot heal {disk} of {node}: it is stale, and lacks writes that the other disks have",
            "a replacement disk; the healed disk would return old data",
            f"./lab disk replace {node} {disk}",
        )
    spindle.heal()


def by_node(lab: Lab) -> dict[str, dict[str, Spindle]]:
    """Return the emulated disks by node and name, of the nodes that have any."""
    kind = replication.of(lab)
    if kind.in_machines:
        return {name: kind.disks(name) for name in kind.names}
    return {name: dict(array.disks) for name, array in arrays.arrays(lab).items()}
