"""What the kernel counts for a container in its control groups, version 1 or 2: read twice a second at no cost.

A query to the engine takes milliseconds of its CPU for each container. Without these files, as with a rootless engine,
`LabContainers` asks it all the same.
"""

from collections.abc import Iterable
from contextlib import suppress

from replication_lab.world.host import HERE, MachineFiles

ROOT = "/sys/fs/cgroup"
# By the controller of version 1; version 2 has none.
FILES = (
    *(("cpuacct", "cpuacct.usage"), ("cpuacct", "cgroup.procs"), ("memory", "memory.failcnt")),
    *(("", "cpu.stat"), ("", "cgroup.procs"), ("", "memory.events")),
)
# What confines a container's processes, in version 1 and 2.
LIMITS_1 = (
    *(("cpu", name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares")),
    *(("blkio", f"blkio.throttle.{way}_device") for way in ("read_bps", "write_bps", "read_iops", "write_iops")),
    *(("cpuset", "cpuset.cpus"), ("memory", "memory.limit_in_bytes"), ("freezer", "freezer.state")),
)
LIMITS_2 = (
    *(("", name) for name in ("cpu.max", "cpu.weight", "cpuset.cpus", "memory.max", "memory.high", "io.max")),
    ("", "cgroup.freeze"),
)
LIMITS = (*LIMITS_1, *LIMITS_2)
# Where Docker puts a container's groups, by its cgroup driver: cgroupfs or systemd.
PLACES = ("docker/{}", "system.slice/docker-{}.scope")


def cpu_seconds(container: str, files: MachineFiles = HERE) -> float | None:
    """Return the CPU time of a container's current run by its ID; None if it has ended, or its groups are elsewhere."""
    nanoseconds = _text(files, container, "cpuacct", "cpuacct.usage")
    if nanoseconds:
        return int(nanoseconds) / 1e9
    microseconds = _number(_text(files, container, "", "cpu.stat"), "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def memory_limit_hits(container: str, files: MachineFiles = HERE) -> int:
    """Return how often a container reached its own limit of memory; 0 if that is not known."""
    once = _text(files, container, "memory", "memory.failcnt")
    return int(once) if once else _number(_text(files, container, "", "memory.events"), "max") or 0


def processes(container: str, files: MachineFiles = HERE) -> frozenset[int]:
    """Return the host's numbers of a container's processes; none if its groups are elsewhere."""
    numbers = _text(files, container, "cpuacct", "cgroup.procs") or _text(files, container, "", "cgroup.procs")
    return frozenset(map(int, numbers.split()))


def limits(container: str, files: MachineFiles = HERE) -> dict[str, str]:
    """Return what confines a container's processes now, by the file that has it; a pause is among it."""
    return _limits(container, files, LIMITS_1) or _limits(container, files, LIMITS_2)


def _limits(container: str, files: MachineFiles, of: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {name: _text(files, container, controller, name).strip() for controller, name in of}
    return {name: text for name, text in found.items() if text}


def paths(container: str, of: Iterable[tuple[str, str]] = FILES) -> list[str]:
    """Return the paths at which the files may be that these functions read of a container; `of` LIMITS for `limits`."""
    return [_path(container, one, place, file) for one, file in of for place in PLACES]


def _path(container: str, controller: str, place: str, file: str) -> str:
    """Return the path of a file in a container's group; version 2 has no controllers."""
    root = f"{ROOT}/{controller}" if controller else ROOT
    return f"{root}/{place.format(container)}/{file}"


def _text(files: MachineFiles, container: str, controller: str, file: str) -> str:
    """Return the text of a file in a container's group; empty if there is none."""
    for place in PLACES:
        with suppress(OSError):
            return files.text(_path(container, controller, place, file))
    return ""


def _number(text: str, name: str) -> int | None:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")), None)
