"""The fake world's disks: what answers in place of a spindle's and an array's container.

A disk is its settings, its counters, and the time that its arm was busy. An `asleep` one takes new settings, says so,
and does not act on them.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import msgspec
from replication_lab.model.lab.storage import Storage
from replication_lab.probes.redo_log import Redo
from replication_lab.world import catalogue
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.spindle import Stats, settings_of

# Sigma of the logarithm: of one measurement of a disk against the next, and of one race.
OF_DISKS, OF_RACES = 0.003, 0.01
# What a row writes to the redo log, and what the log holds in its steady cycle, in bytes.
REDO_BYTES, REDO_AGE = 2500, 6_000_000
# Writes of the array by a row: between MariaDB's 1.1 and MySQL's 1.6, as measured on RAID0.
WRITES_A_ROW = 1.25
# What a disk without any limit does a second, and what an applier does that waits for no disk.
UNLIMITED, APPLIED = 6000.0, 3000.0
BACKEND = "btrfs"
# Rows changed within this many seconds were all changed at their beginning.
MOMENT = 0.05


class Answer(NamedTuple):
    """What a command in a container came to."""

    exit_code: int
    output: bytes


@dataclass
class FakeDisk:
    """A spindle's container: settings, and requests that cost what the settings say."""

    name: str
    settings: dict[str, int | bool]
    acting: dict[str, int | bool] = field(init=False)
    counted: dict[str, float] = field(default_factory=lambda: dict.fromkeys(Stats.__struct_fields__, 0))
    asleep: bool = False
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.acting = dict(self.settings)

    def exec_run(self, command: list[str], **_: Any) -> Answer:
        """Answer as `spindle WORD …` in the container does."""
        _, word, *changes = command
        if word == "set":
            self.settings |= {key: _value(value) for key, value in (each.split("=") for each in changes)}
            if not self.asleep:
                self.acting = dict(self.settings)
        shown = self.counted if word == "stats" else {"follow_us": 1000, "cache_bytes": 1 << 25, **self.settings}
        return Answer(0, " ".join(f"{key}={_spelled(value)}" for key, value in shown.items()).encode())

    def rate(self, direction: str) -> float:
        """Return requests a second in this direction: read or write."""
        cost = self.acting[f"{direction}_us"]
        return 1e6 / cost if cost else UNLIMITED

    def serve(self, direction: str, requests: float) -> None:
        self.counted[f"{direction}s"] += requests
        self.counted["busy_us"] += requests * self.acting[f"{direction}_us"]

    def flush(self, times: int) -> None:
        self.counted["flushes"] += times
        self.counted["busy_us"] += times * self.acting["flush_us"]

    def pass_(self, seconds: float) -> None:
        self.counted["clock_us"] += seconds * 1e6


def _value(text: str) -> int | bool:
    return {"on": True, "off": False}.get(text) if text in ("on", "off") else int(text)


def _spelled(value: float | bool) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(round(value))


@dataclass
class FakeArrayContainer:
    """The container of an array, of which only its label is read."""

    labels: dict[str, str]


@dataclass
class FakeArray:
    """A node's disks, and how requests of the file system spread over them.

    `others` are the writes of other programs during fio's next runs (a second of them, while it measures a disk), a
    figure a run.
    """

    node: str
    storage: Storage
    dice: Random
    others: list[int] = field(default_factory=list)
    room: int = 1 << 30
    disks: list[FakeDisk] = field(init=False)

    def __post_init__(self) -> None:
        limits = settings_of(catalogue.disk(self.storage.disk).limits)
        self.disks = [FakeDisk(f"{self.node}-disk{n}", dict(limits)) for n in range(1, self.storage.members + 1)]

    def containers(self) -> dict[str, FakeDisk | FakeArrayContainer]:
        told = msgspec.json.encode(self.storage).decode()
        labels = {arrays.STORAGE: told, arrays.NODE: self.node}
        return {disk.name: disk for disk in self.disks} | {f"{self.node}-array": FakeArrayContainer(labels)}

    def rate(self, direction: str) -> float:
        """Return requests a second of the whole array: RAID1 writes on every disk, all else is shared out."""
        rates = [disk.rate(direction) for disk in self.disks]
        return min(rates) if self._copies(direction) > 1 else sum(rates)

    def serve(self, direction: str, requests: float) -> None:
        share = requests * self._copies(direction) / len(self.disks)
        for disk in self.disks:
            disk.serve(direction, share)

    def pass_(self, seconds: float) -> None:
        for disk in self.disks:
            disk.pass_(seconds)

    def apply(self, rows: float, writes: float, seconds: float) -> None:
        """Apply rows, each with a flush, and their writes in this many seconds."""
        self.serve("write", writes)
        for disk in self.disks:
            disk.counted["flushes"] += rows
            disk.counted["clock_us"] += seconds * 1e6

    def _copies(self, direction: str) -> int:
        return len(self.disks) if self.storage.level == "raid1" and direction == "write" else 1

    def run(self, command: tuple[str, ...]) -> str:
        """Return what `array …` in the array's container prints."""
        if command[1] == "measure":
            others = self.others.pop() if self.others else 0
            return "\n".join(json.dumps(self._measured(disk, others)) for disk in self.disks)
        if command[1] == "devices":
            return device_of(self.node)
        if "df" in command:
            return f"Avail\n{self.room}"
        if "fio" not in command:
            return ""
        return self._fio([part for part in command if part.startswith("--")])

    def _measured(self, disk: FakeDisk, others: int) -> dict[str, str | float]:
        """Return a second of reads and one of writes; others write this often in each, and fio gets the rest."""
        told: dict[str, str | float] = {"disk": disk.name}
        for way, taken in (("read", 0), ("write", others)):
            rate = disk.rate(way) * self._luck()
            disk.serve(way, rate)
            disk.serve("write", others - taken)
            disk.pass_(1)
            told |= {f"{way}_iops": rate - taken, f"{way}s": round(rate - taken)}
        return told

    def _fio(self, options: Iterable[str]) -> str:
        """Run one job after another, each from its `--name` to the next; options before the first apply to all."""
        jobs: list[dict[str, str]] = [{}]
        for option in options:
            word, _, value = option.removeprefix("--").partition("=")
            jobs += [dict(jobs[0])] if word == "name" else []
            jobs[-1][word] = value
        return json.dumps({"jobs": [self._job(job) for job in jobs[1:]]})

    def _job(self, asked: dict[str, str]) -> dict[str, Any]:
        way, seconds = "read" if "read" in asked["rw"] else "write", float(asked.get("runtime", 1))
        iops = self.rate(way) * self._busy(asked["rw"], int(asked["numjobs"])) * self._luck()
        self.serve(way, iops * seconds)
        self.serve("write", self.others.pop() if self.others else 0)
        self.pass_(seconds)
        side, none = {"iops": iops, "total_ios": round(iops * seconds)}, {"iops": 0, "total_ios": 0}
        return {"jobname": asked["name"], "read": none, "write": none, way: side}

    def _busy(self, pattern: str, jobs: int) -> float:
        """Return the share of time in which a disk is busy: all jobs may wait for the same disk of a RAID0."""
        among = len(self.disks) if self.storage.level == "raid0" and pattern.startswith("rand") else 1
        return jobs / (jobs + among - 1)

    def _luck(self) -> float:
        return self.dice.lognormvariate(0, OF_DISKS)


class FakeRace:
    """Replicas on arrays that apply what their source has changed, as fast as the array writes.

    Time passes with each count of transactions. A `broken` replica never applies; `owing` ones write no pages.
    """

    def __init__(self, arrays_: dict[str, FakeArray], timer: Callable[[], float], dice: Random):
        self.arrays, self._timer, self._dice = arrays_, timer, dice
        self.written, self.broken, self.owing = 0, set(), set()
        self.applied = dict.fromkeys(arrays_, 0.0)
        self.applying = dict.fromkeys(arrays_, True)
        self._speed, self._at = dict.fromkeys(arrays_, 1.0), 0.0

    def begin(self) -> None:
        """Begin another load: disks are a little faster or slower than in the one before."""
        self._speed = {node: self._dice.lognormvariate(0, OF_RACES) for node in self.arrays}
        self._at = self._timer()

    def change(self, rows: int) -> None:
        if self._timer() - self._at >= MOMENT:
            self._pass()
        self.written += rows

    def level(self, node: str) -> None:
        """Apply everything at once."""
        if node in self.applied:
            self.applied[node] = float(self.written)

    def transactions(self, node: str) -> int:
        self._pass()
        return int(self.applied.get(node, self.written))

    def redo(self, node: str) -> Redo:
        self._pass()
        written = int(self.applied[node] * REDO_BYTES)
        return Redo(written, written if node in self.owing else REDO_AGE)

    def _pass(self) -> None:
        now = self._timer()
        seconds, self._at = now - self._at, now
        if seconds <= 0:
            return  # most questions are asked at the moment of the one before
        for node, array in self.arrays.items():
            can = min(array.rate("write") / WRITES_A_ROW, APPLIED) * self._speed[node] * seconds * self.applying[node]
            rows = min(can, self.written - self.applied[node])
            self.applied[node] += rows
            array.apply(rows, rows * WRITES_A_ROW, seconds)


def device_of(node: str) -> str:
    """Return the device on which a node's data directory is mounted."""
    return f"/dev/replication-lab/fake-{node}"


def fake_arrays(storage: dict[str, Storage], dice: Random) -> dict[str, FakeArray]:
    """Return the arrays of a topology's storage, by node."""
    return {
        node: FakeArray(node, msgspec.structs.replace(each, backend=BACKEND), dice) for node, each in storage.items()
    }
