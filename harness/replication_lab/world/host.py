"""The machine under the lab: its description, and its load."""

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import psutil

BOOT = "/proc/sys/kernel/random/boot_id"
# More than most files of the kernel have.
READ_BYTES = 1 << 14


@dataclass(frozen=True)
class MachineFiles:
    """The files of this machine, read when they are asked for; or those of another one as `held` has them, by path.

    A folder has the names of its entries as its text, a line for each.
    """

    held: Mapping[str, str] | None = None

    @property
    def has_this_process(self) -> bool:
        """Whether this process runs on that machine, where it has the same number: both were booted at once."""
        return self.held is None or (Path(BOOT).exists() and self.text(BOOT) == HERE.text(BOOT))

    def text(self, path: Path | str) -> str:
        """Return a file's text; OSError if there is none."""
        if self.held is None:
            return _whole(path).decode(errors="replace")
        try:
            return self.held[str(path)]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    def names(self, folder: Path | str) -> list[str]:
        """Return the names of a folder's entries; OSError if there is none."""
        if self.held is None:
            return os.listdir(folder)
        return self.text(folder).splitlines()


def _whole(path: Path | str) -> bytes:
    """Return the bytes of a file: in each second of a load hundreds are read, and Path takes twice as long."""
    number, found = os.open(path, os.O_RDONLY), b""
    try:
        while part := os.read(number, READ_BYTES):
            found += part
    finally:
        os.close(number)
    return found


HERE = MachineFiles()


def own_cpu_seconds() -> float:
    """Return the CPU time that this process has used."""
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def own_memory_mib() -> float:
    """Return the most memory that this process has used so far, in MiB."""
    # In KiB on Linux, in bytes on macOS (getrusage(2) of each).
    return getrusage(RUSAGE_SELF).ru_maxrss / (1 << 20 if platform.system() == "Darwin" else 1 << 10)


def available_mib(files: MachineFiles = HERE) -> int:
    """Return the memory in MiB that new processes can use without swapping."""
    if files is HERE:
        return psutil.virtual_memory().available >> 20
    return next(int(line.split()[1]) >> 10 for line in files.text(MEMORY).splitlines() if line.startswith("MemAvail"))


# The files of the kernel that are read of a machine.
DISKS, PRESSURES, LOAD = "/proc/diskstats", "/proc/pressure/*", "/proc/loadavg"
CPUS, MEMORY = "/proc/cpuinfo", "/proc/meminfo"
# Docker's names of processors; others are the same in both.
DOCKER_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


def processor() -> str:
    """Return this machine's processor as Docker names it: amd64, arm64."""
    machine = platform.machine().lower()
    return DOCKER_NAMES.get(machine, machine)


def describe() -> dict[str, str | int | float]:
    """Return kernel, CPUs, memory (MiB) and Python of this machine."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": _system(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count() or 1,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "python": platform.python_version(),
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()


def cpu_model(files: MachineFiles = HERE) -> str:
    """Return the name of a machine's processor."""
    try:
        lines = files.text(CPUS).splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds since boot of the whole machine, and of this process with the children it has waited for."""

    busy: float
    stolen: float
    total: float
    own: float

    @classmethod
    def read(cls, files: MachineFiles = HERE, *, with_own: bool = True) -> "CpuTime":
        """Return the times of a machine; `own` is 0 unless this process runs there."""
        busy, stolen, total = _cpu_times(files)["cpu"]
        own = sum(os.times()[:4]) if with_own else 0.0
        return cls(busy, stolen, total, own)


def _cpu_times(files: MachineFiles) -> dict[str, tuple[float, float, float]]:
    """Return the busy, stolen and total seconds since boot of "cpu", all together, and of each CPU as "cpuN".

    Fields of proc_stat(5): idle and iowait are the fourth and the fifth, stolen time is the eighth.
    """
    found = {}
    for name, *fields in map(str.split, files.text("/proc/stat").splitlines()):
        if name.startswith("cpu"):
            spent = [int(each) / os.sysconf("SC_CLK_TCK") for each in fields[:8]]
            found[name] = sum(spent) - spent[3] - spent[4] - spent[7], spent[7], sum(spent)
    return found


def seconds_by_cpu(files: MachineFiles = HERE) -> dict[int, tuple[float, float]]:
    """Return the busy and the total seconds since boot of each CPU by its number; empty without /proc/stat."""
    with suppress(OSError):
        times = _cpu_times(files)
        return {int(name[3:]): (busy, total) for name, (busy, _, total) in times.items() if name != "cpu"}
    return {}


def cpu_pressure(files: MachineFiles = HERE) -> float | None:
    """Return the share of the last 10 s in which some task waited for a CPU (PSI); None if the kernel has no PSI."""
    return pressures(files).get("cpu")


def pressures(files: MachineFiles = HERE) -> dict[str, float]:
    """Return the shares of the last 10 s in which some task waited, by resource (PSI); empty without PSI."""
    found = {}
    for resource in ("cpu", "io", "memory"):
        with suppress(OSError):
            first = files.text(f"/proc/pressure/{resource}").split()
            found[resource] = float(first[1].removeprefix("avg10=")) / 100
    return found


def memory_stalled_seconds(files: MachineFiles = HERE) -> float | None:
    """Return for how long some task has waited for memory since boot (PSI); None if the kernel has no PSI."""
    with suppress(OSError):
        return int(files.text("/proc/pressure/memory").split("total=")[1].split()[0]) / 1e6
    return None


@dataclass(frozen=True)
class DiskTotals:
    """What a disk has done since boot: the seconds in which it was busy, and the bytes that it moved."""

    busy: float
    moved: int


SECTOR = 512
# Block devices whose data are in memory or on another block device.
NO_DISKS = ("loop", "ram", "zram", "nbd", "dm-", "md", "drbd")


def disk_work(files: MachineFiles = HERE) -> dict[str, DiskTotals]:
    """Return the work of each of this machine's disks by its name; empty without /proc/diskstats.

    Fields of /proc/diskstats (Documentation/admin-guide/iostats.rst): sectors of 512 bytes, milliseconds.
    """
    found = {}
    with suppress(OSError):
        whole = {name for name in files.names("/sys/block") if not name.startswith(NO_DISKS)}
        for line in files.text(DISKS).splitlines():
            _, _, name, *fields = line.split()
            if name in whole:
                found[name] = DiskTotals(int(fields[9]) / 1000, SECTOR * (int(fields[2]) + int(fields[6])))
    return found


def disk_of(device: str, files: MachineFiles = HERE) -> dict[str, Any]:
    """Return the counters of a block device, MAJOR:MINOR, since boot; empty if the machine has no such device.

    Fields of /proc/diskstats (Documentation/admin-guide/iostats.rst): requests done, milliseconds busy and waited.
    """
    with suppress(OSError):
        for line in files.text(DISKS).splitlines():
            major, minor, name, *fields = line.split()
            if f"{major}:{minor}" == device:
                number = [*map(int, fields), *[0] * 20]
                waited = number[3] + number[7]
                return {
                    "name": name,
                    "reads": number[0],
                    "writes": number[4],
                    "busy_ms": number[9],
                    "waited_ms": waited,
                    "flushes": number[15],
                }
    return {}


def load1(files: MachineFiles = HERE) -> float:
    """Return the load average of the last minute."""
    return float(files.text(LOAD).split()[0]) if files is not HERE else os.getloadavg()[0]
