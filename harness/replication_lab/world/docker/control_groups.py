"""What the kernel counts for a container in its control groups, version 1 or 2: read twice a second at no cost.

A query to the engine takes milliseconds of its CPU for each container. Without these files, as with a rootless engine,
`LabContainers` asks it all the same.
"""

from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# Where Docker puts a container's groups, by its cgroup driver: cgroupfs or systemd.
PLACES = ("docker/{}", "system.slice/docker-{}.scope")


def cpu_seconds(container: str) -> float | None:
    """Return the CPU time of a container's current run by its ID; None if it has ended, or its groups are elsewhere."""
    nanoseconds = _text(container, "cpuacct", "cpuacct.usage")
    if nanoseconds:
        return int(nanoseconds) / 1e9
    microseconds = _number(_text(container, "", "cpu.stat"), "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def memory_limit_hits(container: str) -> int:
    """Return how often a container reached its own limit of memory; 0 if that is not known."""
    once = _text(container, "memory", "memory.failcnt")
    return int(once) if once else _number(_text(container, "", "memory.events"), "max") or 0


def processes(container: str) -> frozenset[int]:
    """Return the host's numbers of a container's processes; none if its groups are elsewhere."""
    numbers = _text(container, "cpuacct", "cgroup.procs") or _text(container, "", "cgroup.procs")
    return frozenset(map(int, numbers.split()))


def _text(container: str, controller: str, file: str) -> str:
    """Return the text of a file in a container's group; empty if there is none. Version 2 has no controllers."""
    for place in PLACES:
        with suppress(OSError):
            return (ROOT / controller / place.format(container) / file).read_text()
    return ""


def _number(text: str, name: str) -> int | None:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")), None)
