"""The host's processes and what they did, to tell the lab's work from that of others, and to name who did it.

They are read twice a second while a load runs, so /proc is read directly: psutil takes four times as long.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from replication_lab.world.host import HERE, MachineFiles

PROC = "/proc"
PROXY = "docker-proxy"
# The kernel's own threads are children of this process.
KERNEL = 2
# Fields of proc_pid_stat(5) after the name: state, parent, CPU time, that of children that it waited for, its start.
STATE, PARENT, CPU, OF_CHILDREN, START = 0, 1, slice(11, 13), slice(13, 15), 19
# In a second.
TICKS = os.sysconf("SC_CLK_TCK")
# The state of a process that a signal stopped. User-mode Linux traces its own processes, which have another one.
STOPPED = "T"


class Process(NamedTuple):
    """A process by its number and its start in ticks since boot: a later one with its number is a different one."""

    pid: int
    start: int


@dataclass(frozen=True)
class Work:
    """What a process has done since its start; `disk_bytes` is 0 where this user may not read it.

    `cpu` are seconds, `of_children` those of the children that it has waited for, `disk_bytes` what it and such
    children made disks read and write.
    """

    name: str
    parent: int
    cpu: float
    of_children: float
    disk_bytes: int


Processes = Mapping[Process, Work]


def every(files: MachineFiles = HERE, known: Processes | None = None) -> dict[Process, Work]:
    """Return all processes with their work so far; those of `known` that are still there are not read again."""
    found, by_pid = dict[Process, Work](), {each.pid: (each, work) for each, work in (known or {}).items()}
    for pid in map(int, filter(str.isdigit, files.names(PROC))):
        # It may have ended meanwhile.
        with suppress(OSError):
            process, work = by_pid.get(pid) or _read(files, pid)
            found[process] = work
    return found


def of_the_kernel(found: Processes) -> Processes:
    """Return the kernel's own threads, which are most of the processes of a machine that does little else."""
    return {process: work for process, work in found.items() if work.parent == KERNEL}


def _read(files: MachineFiles, pid: int) -> tuple[Process, Work]:
    head, _, rest = files.text(f"{PROC}/{pid}/stat").rpartition(") ")
    fields = rest.split(maxsplit=START + 1)
    cpu, of_children = (sum(map(int, fields[each])) / TICKS for each in (CPU, OF_CHILDREN))
    parent = int(fields[PARENT])
    disk_bytes = 0 if parent == KERNEL else _disk_bytes(files, pid)
    return Process(pid, int(fields[START])), Work(head.partition(" (")[2], parent, cpu, of_children, disk_bytes)


def stopped(numbers: Iterable[int], files: MachineFiles = HERE) -> dict[int, str]:
    """Return which of these processes a signal has stopped: the name of each by its number."""
    found = {}
    for pid in numbers:
        with suppress(OSError):
            head, _, rest = files.text(f"{PROC}/{pid}/stat").rpartition(") ")
            if rest.split(maxsplit=1)[STATE] == STOPPED:
                found[pid] = head.partition(" (")[2]
    return found


def _disk_bytes(files: MachineFiles, pid: int) -> int:
    with suppress(OSError):
        lines = files.text(f"{PROC}/{pid}/io").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("read_bytes", "write_bytes")))
    return 0


def descendants(found: Processes, ancestors: Collection[int]) -> set[Process]:
    """Return the processes that descend from some by their number, without these."""
    children: dict[int, list[Process]] = {}
    for process, work in found.items():
        children.setdefault(work.parent, []).append(process)
    below, open_ = set[Process](), list(ancestors)
    while open_:
        fresh = [each for each in children.get(open_.pop(), ()) if each not in below]
        below.update(fresh)
        open_ += [each.pid for each in fresh]
    return below


def publishing(found: Processes, subnets: Iterable[str], files: MachineFiles = HERE) -> set[Process]:
    """Return the processes `docker-proxy` that publish a port of a container in these networks.

    Docker starts one for each port; it carries every connection from this machine to the container.
    """
    networks = [ip_network(each) for each in subnets]
    proxies = (process for process, work in found.items() if work.name == PROXY) if networks else ()
    return {each for each in proxies if any(ip_address(_published(each, files)) in one for one in networks)}


def _published(proxy: Process, files: MachineFiles) -> str:
    """Return the address of the container whose port a `docker-proxy` publishes; 0.0.0.0 if it has ended."""
    with suppress(OSError, ValueError):
        words = files.text(f"{PROC}/{proxy.pid}/cmdline").split("\0")
        return words[words.index("-container-ip") + 1]
    return "0.0.0.0"


def busiest(spent: Iterator[tuple[str, float]], most: int = 3) -> list[tuple[str, float]]:
    """Return the names of those that spent the most, added up by name."""
    by_name: dict[str, float] = {}
    for name, amount in spent:
        by_name[name] = by_name.get(name, 0.0) + amount
    return sorted(by_name.items(), key=lambda item: -item[1])[:most]
