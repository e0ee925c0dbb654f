"""A node's array in a running lab: its disks one by one, their measured limits, and the state of the array."""

import shlex
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.storage import DATA, Storage
from replication_lab.world import at_once, clock
from replication_lab.world.disks.overlay import MACHINE, array_name, disk_names, remembered, volume_name
from replication_lab.world.disks.spindle import Spindle, Stats
from replication_lab.world.docker import images
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node, Service

Answer = TypeVar("Answer")

STORAGE, NODE, IMAGE = "replication-lab.storage", "replication-lab.node", "replication-lab/array"
WITHIN = 0.05
# How often a disk that misses its limits is measured. The seconds of the first measurement are enough for a disk of
# SLOW requests a second; a faster one serves as many in less time, at least in fio's least.
TRIES, MEASURED_SECONDS, SLOW, LEAST_SECONDS = 5, 0.8, 100, 0.2
MEASURED_FILE = f"{DATA}/.measured"
FIO = ("fio", "--name=measured", f"--filename={MEASURED_FILE}", "--size=64M", "--direct=1", "--ioengine=libaio")
PROGRESS_SECONDS, SETTLE_SECONDS, REBUILD_SECONDS = 0.5, 1.0, 3600
RATES = ("read_iops", "write_iops")
NO_LIMIT, WAITING_SECONDS, MOST_AT_A_TIME = 2000, 0.02, 128
ROOM = ("df", "--output=avail", "--block-size=1")
# Past the page cache, which would hide what the disks have lost.
READ_ALL = (
    f'files=$(find {DATA} -type f -size +0) || echo "folders: find ended with $?"; '
    'echo "$files" | while IFS= read -r file; do dd if="$file" of=/dev/null bs=1M iflag=direct 2>/dev/null || '
    # Temporary files of the server may disappear meanwhile.
    f'[ ! -e "$file" ] || echo "${{file#{DATA}/}}"; done'
)

# A loop device has its lab's name in its reference, which the kernel gives to readers of the device.
LIST_LEFT = (
    "losetup --noheadings --raw --output REF | "
    "sed -En 's/^replication-lab\\\\x20(\\S+)\\\\x20.*/loop device of \\1/p'; "
    'for name in /dev/replication-lab/*; do [ ! -e "$name" ] || echo "links in /dev of ${name##*/}"; done'
)
# How the lines begin that it and `array sweep` print.
LEFTOVERS = ("loop device of ", "links in /dev of ")


class Measured(msgspec.Struct, frozen=True):
    """The measured rates of a disk by direct I/O of 4 KiB: requests a second; `reads` and `writes` by fio."""

    disk: str
    read_iops: float
    write_iops: float
    reads: int = 0
    writes: int = 0


@dataclass(frozen=True)
class Array:
    """The disks under a node's data directory."""

    lab: Lab
    node: str
    storage: Storage

    # Words to put before a command in the node's container, so that it runs where the node's server is.
    inside: ClassVar[tuple[str, ...]] = ()

    @property
    def service(self) -> Service:
        """The service that joins the disks."""
        return self.lab.service(array_name(self.node, self.storage))

    @property
    def server_node(self) -> Node:
        return self.lab.node(self.node)

    @cached_property
    def disks(self) -> dict[str, Spindle]:
        """The disks by short name (disk1, disk2, …)."""
        names = disk_names(self.node, self.storage)
        return {name.rpartition("-")[2]: Spindle(self.lab.service(name).container) for name in names}

    def disk(self, name: str) -> Spindle:
        refuse_unknown(f"disk of {self.node}", name, self.disks, f"./lab disk list {self.node}")
        return self.disks[name]

    def limit(self, limits: Limits, disk: str | None = None) -> None:
        """Set these limits on all disks, or one of them, from the next request on."""
        for spindle in [self.disk(disk)] if disk else self.disks.values():
            spindle.limit(limits)

    def measure(self, times: int = 1) -> dict[str, Measured]:
        """Measure all disks at once by direct I/O on a part that the array does not use; return rates by short name.

        Measure reads, then writes, each for this many times the seconds in which the slowest disk shows that it keeps
        its limits. The rates include the disk's requests for others: fio gets only the capacity that a server leaves.
        """
        limits = self.limits().values()
        rates = [[getattr(one, name) or NO_LIMIT for one in limits] for name in RATES]
        seconds = [times * max(MEASURED_SECONDS * SLOW / max(min(each), SLOW), LEAST_SECONDS) for each in rates]
        depths = [str(_depth(max(each))) for each in rates]
        before = self.looks()
        said = self.service.run("array", "measure", *(f"{1000 * each:.0f}ms" for each in seconds), *depths)
        after = self.looks()
        loads = [msgspec.json.decode(line, type=Measured) for line in said.splitlines()]
        return {
            name: _with_others(load, before[name], after[name]) for name, load in zip(self.disks, loads, strict=True)
        }

    def limits(self) -> dict[str, Limits]:
        """Return the limits of each disk."""
        return self._each(Spindle.limits)

    def looks(self) -> dict[str, Stats]:
        """Return each disk's counters since its start."""
        return self._each(Spindle.stats)

    def _each(self, ask: Callable[[Spindle], Answer]) -> dict[str, Answer]:
        """Ask all disks at once: the way into a container takes longer than an answer."""
        return dict(zip(self.disks, at_once.of_each(ask, self.disks.values()), strict=True))

    def in_filesystem(self, *command: str) -> str:
        """Run a command in the root folder of the array's file system, the data directory; return its output."""
        return self.service.run("array", "in_filesystem", *command)

    def write_back(self) -> None:
        """Wait until the file system has written everything back to its disks."""
        self.in_filesystem("sync", "--file-system", ".")

    def has_its_data(self, volumes: Collection[str | None]) -> bool:
        """Return whether a node that has these volumes keeps its data here."""
        return volume_name(self.lab.name, self.storage.place or self.node) in volumes

    def status(self) -> str:
        """Return the state as the tools of the file system or of md print it."""
        return self.service.run("array", "status")

    def unreadable(self) -> list[str]:
        """Return the files of the data directory that cannot be read from the disks, bypassing all caches."""
        if self.server_node.state()[0] == "running":
            return self.server_node.run(*self.inside, "sh", "-c", READ_ALL).splitlines()
        return self.service.run("array", "unreadable").splitlines()

    def free_bytes(self) -> int:
        """Return the free bytes under the data directory."""
        return int(self.in_filesystem(*ROOM, ".").split()[-1])

    def replace(self, disk: str, progress: Callable[[float], None] = lambda _: None) -> None:
        """Exchange a disk of a RAID1 for an empty one and rebuild its data, while the server goes on.

        `progress` is called with the percentage, about twice a second. LabError if the array has no redundancy.
        """
        if not self.storage.survives:
            raise LabError(
                f"{self.node} is on {self.storage.level}, which stores no second copy",
                "raid1: a disk's data can be rebuilt from another",
                f"./lab disk heal {self.node} {disk}",
            )
        exchanged = self.disk(disk)
        exchanged.exchange()
        with ThreadPoolExecutor(1) as pool:
            rebuilt = pool.submit(self._rebuild, disk)
            while not wait([rebuilt], timeout=PROGRESS_SECONDS).done:
                if (percent := self._progress()) is not None:
                    progress(percent)
            rebuilt.result()
        progress(100)

    def _rebuild(self, disk: str) -> None:
        self.service.run("array", "replace", self._number(disk))

    def _progress(self) -> float | None:
        said = self.service.run("array", "progress").split()
        return float(said[0]) if said else None

    def _number(self, disk: str) -> str:
        return str(list(self.disks).index(disk) + 1)

    def is_mounted(self) -> bool:
        """Return whether the node's data directory is on a device of the array's, as the server sees it."""
        mounts = [line.split() for line in self.server_node.run("cat", "/proc/mounts").splitlines()]
        found = [device for device, folder, *_ in mounts if folder == DATA]
        return bool(found) and found[-1] in self.service.run("array", "devices").split()


class MachineArray(Array):
    """An array in a virtual machine, which is the node itself; its state is read in the guest, which owns the disks."""

    inside = ("guest",)

    def measure(self, times: int = 1) -> dict[str, Measured]:
        """Measure each disk while a file of the array is read and then written by direct I/O, by the disks' counters.

        The guest has no unused part of a disk. Many requests at a time keep all disks of the array busy.
        """
        self._fio("--rw=write", "--bs=1M")
        try:
            reads, writes = (self._rates(direction, times * MEASURED_SECONDS) for direction in ("read", "write"))
        finally:
            self.server_node.run(*self.inside, "rm", "-f", MEASURED_FILE)
        return {name: Measured(f"{self.node}-{name}", reads[name], writes[name]) for name in self.disks}

    def _rates(self, direction: str, seconds: float) -> dict[str, float]:
        """Return the requests a second of each disk, between two readings while fio runs."""
        with ThreadPoolExecutor(1) as pool:
            runtime = f"--runtime={(seconds + 2 * SETTLE_SECONDS) * 1000:.0f}ms"
            running = pool.submit(
                self._fio, f"--rw=rand{direction}", "--bs=4k", f"--iodepth={MOST_AT_A_TIME}", "--time_based", runtime
            )
            clock.pause(SETTLE_SECONDS)
            before = self.looks()
            clock.pause(seconds)
            after = self.looks()
            running.result()
        return {name: _rate(before[name], after[name], f"{direction}s") for name in self.disks}

    def _fio(self, *how: str) -> None:
        self.server_node.run(*self.inside, *FIO, *how)

    def has_its_data(self, _volumes: Collection[str | None]) -> bool:
        return True

    def status(self) -> str:
        return self.server_node.run(*self.inside, "array", "status")

    def _rebuild(self, disk: str) -> None:
        """Remove the member from md, and add the empty disk in its place, to which md copies the data."""
        number = self._number(disk)
        for change in ("fail", "remove"):
            with suppress(LabError):
                # md has failed and removed the disk by itself if it sent it a request meanwhile.
                self.server_node.run(*self.inside, "array", change, number)
        self.server_node.run(*self.inside, "array", "add", number)
        clock.wait_until(
            lambda: {"degraded": "0", "sync": "idle"}.items() <= self._words().items(),
            f"the array of {self.node} to have all of its disks",
            REBUILD_SECONDS,
            every=0.5,
        )

    def _progress(self) -> float | None:
        done, _, all_ = self._words().get("done", "").partition("/")
        return 100 * int(done) / int(all_) if all_.isdigit() and done.isdigit() else None

    def _words(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.status().split())

    def free_bytes(self) -> int:
        return int(self.server_node.run(*self.inside, *ROOM, DATA).split()[-1])

    def is_mounted(self) -> bool:
        with suppress(LabError):
            self.server_node.run(*self.inside, "array", "check")
            return True
        return False


def _with_others(load: Measured, before: Stats, after: Stats) -> Measured:
    """Return the rates of a load, including the disk's other requests between the two readings around it."""
    seconds = max(after.clock_us - before.clock_us, 1) / 1e6
    reads, writes = after.reads - before.reads - load.reads, after.writes - before.writes - load.writes
    return Measured(load.disk, load.read_iops + max(reads, 0) / seconds, load.write_iops + max(writes, 0) / seconds)


def _rate(before: Stats, after: Stats, counted: str) -> float:
    return (getattr(after, counted) - getattr(before, counted)) / ((after.clock_us - before.clock_us) / 1e6)


def _depth(rate: int) -> int:
    """Return the queue depth for a rate: as many requests as the disk serves while a busy machine delays the client."""
    return min(max(round(rate * WAITING_SECONDS), 2), MOST_AT_A_TIME)


def arrays(lab: Lab) -> dict[str, Array]:
    """Return the lab's arrays by node; empty if no node has storage of its own."""
    found = {}
    for node in (each.name for each in lab.topology.nodes):
        mine = known(lab, node)
        is_there = mine and node in lab.containers
        volumes = [mount.get("Name") for mount in lab.node(node).container.attrs["Mounts"]] if is_there else []
        # While a node migrates there is a second array, whose volume it does not use.
        if in_service := [each for each in mine if each.has_its_data(volumes)]:
            found[node] = in_service[0]
    return found


def known(lab: Lab, node: str) -> list[Array]:
    """Return all arrays that were made for a node, in service or not."""
    mine = [one.labels.get(STORAGE, "") for one in lab.containers.values() if one.labels.get(NODE) == node]
    storages = [found for text in mine if (found := remembered(text))]
    return [(MachineArray if each.backend == MACHINE else Array)(lab, node, each) for each in storages]


def array(lab: Lab, node: str) -> Array:
    found = arrays(lab)
    if node not in found:
        expected = f"one of {', '.join(found)}" if found else "a lab with storage"
        raise LabError(f"{node} of {lab.name} has no emulated disks", expected, "./lab up --help")
    return found[node]


def within(measured: float, limit: int | None) -> bool:
    """Return whether a disk keeps its limit, 5 % more or less; no limit is always kept."""
    return limit is None or abs(measured - limit) <= WITHIN * limit


def keeps(measured: Measured, limits: Limits) -> bool:
    return within(measured.read_iops, limits.read_iops) and within(measured.write_iops, limits.write_iops)


def measured(array: Array, limits: dict[str, Limits]) -> dict[str, Measured]:
    """Return the measured rates of each disk, by short name. Repeat for longer while a disk misses its limits.

    A busy moment of the machine passes; a slow disk stays slow. A disk that has kept its limits once keeps that result
    while another one is measured again.
    """
    found: dict[str, Measured] = {}
    for number in range(1, TRIES + 1):
        for name, now in array.measure(number).items():
            if name not in found or not keeps(found[name], limits[name]):
                found[name] = now
        if all(keeps(found[name], limits[name]) for name in found):
            break
    return found


def sweep(kept: list[str]) -> list[str]:
    """Remove what arrays of labs other than these left in the host's /dev; return what was removed.

    Do nothing if the array's image was not built: there was no array, and Docker would try to pull the image.
    """
    rules = ["b 7:* rw", "c 10:237 rw"]
    return _in_dev(shlex.join(["array", "sweep", *kept]), "rw", cap_add=["SYS_ADMIN"], device_cgroup_rules=rules)


def left_in_dev(kept: list[str]) -> list[str]:
    """Return what `sweep` would remove from the host's /dev, in its words; change nothing."""
    found = (line.rpartition(" ") for line in _in_dev(LIST_LEFT, "ro", device_cgroup_rules=["b 7:* r"]))
    return [f"{what} {lab}" for what, _, lab in found if lab not in kept]


def _in_dev(script: str, mode: str, **options: Any) -> list[str]:
    """Return the leftovers that a script prints in a container with the host's /dev; none without the image."""
    if not images.is_present(IMAGE):
        return []
    status, said = images.said_by(IMAGE, script, volumes={"/dev": {"bind": "/dev", "mode": mode}}, **options)
    if status:
        raise LabError(f"leftovers of arrays cannot be found or removed: {said}", "", "losetup --list")
    # Its programs may also warn.
    return [line for line in said.splitlines() if line.startswith(LEFTOVERS)]
