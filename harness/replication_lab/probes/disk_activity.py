"""The work of an array's disks between two readings, by their own counters and clocks, as iostat shows it."""

from dataclasses import dataclass

from replication_lab.world.disks.array import Array
from replication_lab.world.disks.spindle import Stats


@dataclass(frozen=True)
class DiskWork:
    """Requests a second of the whole array, as iostat shows them, and the share of time in which its disks were busy.

    A RAID1 counts every write once, whatever the number of its disks.
    """

    reads_per_second: float
    writes_per_second: float
    busy: float
    flushes_per_second: float


def look(array: Array) -> list[Stats]:
    """Return the current counters of the array's disks."""
    return list(array.looks().values())


def work(array: Array, before: list[Stats], after: list[Stats]) -> DiskWork:
    """Return the work of the disks from one reading to the next."""
    each = [work_of_disk(then, now) for then, now in zip(before, after, strict=True)]
    copies = len(each) if array.storage.level == "raid1" else 1
    return DiskWork(
        sum(one.reads_per_second for one in each),
        sum(one.writes_per_second for one in each) / copies,
        sum(one.busy for one in each) / len(each),
        sum(one.flushes_per_second for one in each) / copies,
    )


def work_of_disk(then: Stats, now: Stats) -> DiskWork:
    """Return the work of one disk between two readings, by its own clock."""
    microseconds = max(now.clock_us - then.clock_us, 1)
    return DiskWork(
        (now.reads - then.reads) * 1e6 / microseconds,
        (now.writes - then.writes) * 1e6 / microseconds,
        (now.busy_us - then.busy_us) / microseconds,
        (now.flushes - then.flushes) * 1e6 / microseconds,
    )
