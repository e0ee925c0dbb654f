"""What was used of the machine until a moment: its CPUs, disks and memory, by the lab, the harness, and others.

The processes that publish the lab's ports (`docker-proxy`) count as the lab's own, and so does the container that reads
another machine (world/docker/reach.py). Commands that others run inside the lab's containers do not.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from replication_lab.world import clock, host, processes
from replication_lab.world.docker import control_groups, reach
from replication_lab.world.docker.containers import commands_of_others
from replication_lab.world.docker.lab import Lab
from replication_lab.world.host import BOOT, MachineFiles
from replication_lab.world.processes import Process, Processes, Work

# A container of one of several labs: the number of the lab, and the name of the container.
Key = tuple[int, str]
# In place of the number of a lab: the container that reads another machine.
READS = -1
# The engine is asked who started a command in a container once it has used so many CPU seconds: a health check uses
# fewer.
WORTH_ASKING = 0.1
# What is read of a machine that is not this one, beside the control groups of containers.
FILES = (
    *("/proc", "/proc/stat", host.DISKS, host.LOAD, host.PRESSURES, BOOT, "/sys/block"),
    *("/proc/[0-9]*/stat", "/proc/[0-9]*/io", f"/proc/[0-9]*/cmdline={processes.PROXY}"),
)


@dataclass(frozen=True)
class Command:
    """A command that others run in a container, with the CPU seconds of its processes."""

    container: Key
    seconds: float


@dataclass(frozen=True)
class Used:
    """The counters of one moment. CPU seconds of containers are by their key, those of each CPU are (busy, total).

    `pinned` are the CPUs of the containers that are pinned to some. `children` are the CPU seconds of the harness's
    children that still run, `ports` those of each `docker-proxy` of the lab. `lab` are the processes of containers and
    harness, `commands` what others run inside containers, by its first process.
    """

    at: float
    machine: host.CpuTime
    cpus: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    containers: Mapping[Key, float] = field(default_factory=dict)
    pinned: Mapping[Key, str] = field(default_factory=dict)
    children: float = 0.0
    ports: Mapping[Process, float] = field(default_factory=dict)
    commands: Mapping[Process, Command] = field(default_factory=dict)
    processes: Processes = field(default_factory=dict)
    lab: frozenset[Process] = frozenset()
    disks: Mapping[str, host.DiskTotals] = field(default_factory=dict)
    memory_stalled: float | None = None
    load1: float = 0.0
    cpu_pressure: float | None = None
    memory_limit_hits: int = 0


@dataclass(frozen=True)
class UsedSince:
    """What was used between two moments; shares are 0…1."""

    before: Used
    now: Used

    @property
    def seconds(self) -> float:
        return max(self.now.at - self.before.at, 1e-3)

    @property
    def steal(self) -> float:
        """The share of the CPUs' time that other virtual machines took."""
        return (self.now.machine.stolen - self.before.machine.stolen) / self._cpu_seconds

    @property
    def own(self) -> float:
        """The share of all CPUs that the containers, each `docker-proxy` of theirs and the harness used."""
        return (sum(self._containers().values()) + self._harness()) / self._cpu_seconds

    @property
    def foreign(self) -> float:
        """The share of all CPUs that neither the containers nor the harness used."""
        busy = (self.now.machine.busy - self.before.machine.busy) / self._cpu_seconds
        return max(busy - self.own, 0.0)

    @property
    def foreign_of_pinned(self) -> dict[str, float]:
        """At least what share of the CPUs that containers are pinned to others used, by the CPUs.

        The CPUs of the harness and of containers that are not pinned are not known. All they used is deducted from
        each, so a load of clients in the harness is not taken for another program.
        """
        used = self._containers()
        anywhere = used.pop("", 0.0) + self._harness()
        found = {}
        for cpus, seconds in used.items():
            numbers = [int(number) for number in cpus.split(",") if int(number) in self.before.cpus]
            busy, total = (sum(self.now.cpus[n][i] - self.before.cpus[n][i] for n in numbers) for i in (0, 1))
            found[cpus] = max(busy - seconds - anywhere, 0.0) / max(total, 1e-3)
        return found

    @property
    def disk(self) -> float:
        """The share of the time in which a disk worked for others: its busy time, by their share of the bytes.

        Theirs are the bytes that their processes read or wrote. What the kernel writes for them after they have ended
        is not known to be theirs.
        """
        foreign = sum(moved for _, moved in self.foreign_disk_bytes())
        shares = [0.0]
        for name, work in self.now.disks.items():
            was = self.before.disks.get(name, work)
            busy = min((work.busy - was.busy) / self.seconds, 1.0)
            shares.append(busy * min(foreign / max(work.moved - was.moved, 1), 1.0))
        return max(shares)

    @property
    def memory(self) -> float:
        """The share of the time in which a task waited for memory; 0 if a container reached a limit of its own."""
        if self.now.memory_stalled is None or self.before.memory_stalled is None:
            return 0.0
        if self.now.memory_limit_hits != self.before.memory_limit_hits:
            return 0.0
        return (self.now.memory_stalled - self.before.memory_stalled) / self.seconds

    def foreign_cpu_seconds(self) -> Iterator[tuple[str, float]]:
        """Yield the name of each other process, and the CPU seconds that it used."""
        for _, work, was in self._others():
            yield work.name, work.cpu - was.cpu

    def foreign_disk_bytes(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each other process, and the bytes that it made disks read or write.

        A process that waited for a child has the child's bytes from then on, which were counted as the child's before.
        """
        ended: dict[int, int] = defaultdict(int)
        for process, work in self.before.processes.items():
            if process not in self.now.processes:
                ended[work.parent] += work.disk_bytes
        for process, work, was in self._others():
            yield work.name, max(work.disk_bytes - was.disk_bytes - ended[process.pid], 0)

    def _others(self) -> Iterator[tuple[Process, Work, Work]]:
        """Yield each process of others with its work until now, and until the moment before."""
        for process, work in self.now.processes.items():
            if process not in self.now.lab:
                yield process, work, self.before.processes.get(process, NOTHING)

    @property
    def _cpu_seconds(self) -> float:
        return max(self.now.machine.total - self.before.machine.total, 1e-3)

    def _harness(self) -> float:
        """Return the CPU seconds of the harness with its children, and of the processes that publish ports."""
        # A child that ended moved from `children` to those that the harness has waited for.
        harness, was = (each.machine.own + each.children for each in (self.now, self.before))
        ports = sum(seconds - self.before.ports.get(process, 0.0) for process, seconds in self.now.ports.items())
        return max(harness - was, 0.0) + ports

    def _containers(self) -> dict[str, float]:
        """Return the CPU seconds that containers used since then, by the CPUs that they are pinned to.

        Containers that are not pinned are under an empty text. What one used before it ended by itself is not known.
        Commands of others are not included.
        """
        used: dict[str, float] = defaultdict(float)
        for key, seconds in self.now.containers.items():
            used[self.now.pinned.get(key, "")] += max(seconds - self.before.containers.get(key, 0.0), 0.0)
        for root, command in self.now.commands.items():
            was = self.before.commands.get(root)
            used[self.now.pinned.get(command.container, "")] -= max(
                command.seconds - (was.seconds if was else 0.0), 0.0
            )
        return used


NOTHING = Work(name="", parent=0, cpu=0.0, of_children=0.0, disk_bytes=0)


class Reader:
    """Reads what was used, for labs whose containers stay the same while it is in use.

    It reads the machine of a site, by default of the command's engine; `apart` are the sites on other machines.
    """

    def __init__(self, labs: Iterable[Lab], site: str = "", apart: Collection[str] = ()) -> None:
        self._labs, self._site, self._apart = tuple(labs), site, apart
        found = [lab.all_containers for lab in self._labs]
        self._every = [each.every_at(site, apart) if apart else dict(each.every) for each in found]
        self._containers = {(at, name): one for at, every in enumerate(self._every) for name, one in every.items()}
        self._paths = [
            *FILES,
            *(path for each in self._containers.values() for path in control_groups.paths(str(each.id))),
        ]
        # The kernel's threads, which only name who used a CPU, are read every second time: once a second.
        self._of_the_kernel: Processes = {}
        # Whether others started a command, by its first process.
        self._of_others: dict[Process, bool] = {}

    def read(self) -> Used:
        """Return the counters of now."""
        files = reach.machine_files(*self._paths, site=self._site)
        harness = {os.getpid()} if files.has_this_process else set[int]()
        found = processes.every(files, self._of_the_kernel)
        self._of_the_kernel = {} if self._of_the_kernel else processes.of_the_kernel(found)
        inside = {key: control_groups.processes(str(each.id), files) for key, each in self._containers.items()}
        children = processes.descendants(found, harness)
        ports = processes.publishing(found, [each for lab in self._labs for each in lab.all_containers.subnets], files)
        theirs = self._commands(found, inside)
        of_others = processes.descendants(found, [each.pid for each in theirs]) | theirs.keys()
        readers = reach.own_containers(self._site, self._apart)
        numbers = harness.union(*inside.values(), *(control_groups.processes(each, files) for each in readers))
        own = {each for each in found if each.pid in numbers} - of_others
        return Used(
            clock.timer(),
            host.CpuTime.read(files, with_own=bool(harness)),
            host.seconds_by_cpu(files),
            self._cpu_seconds(files)
            | {(READS, each): control_groups.cpu_seconds(each, files) or 0.0 for each in readers},
            {(at, name): cpus for at, lab in enumerate(self._labs) for name, cpus in lab.pinned.items()},
            sum(found[each].cpu + found[each].of_children for each in children),
            {each: found[each].cpu for each in ports},
            theirs,
            found,
            frozenset(own | children | ports),
            host.disk_work(files),
            host.memory_stalled_seconds(files),
            host.load1(files),
            host.cpu_pressure(files),
            sum(control_groups.memory_limit_hits(str(each.id), files) for each in self._containers.values()),
        )

    def _cpu_seconds(self, files: MachineFiles) -> dict[Key, float]:
        return {
            (at, name): seconds
            for at, (lab, every) in enumerate(zip(self._labs, self._every, strict=True))
            for name, seconds in lab.all_containers.cpu_seconds_of(every, files).items()
        }

    def _commands(self, found: Processes, inside: Mapping[Key, frozenset[int]]) -> dict[Process, Command]:
        """Return the commands that others run in containers.

        The first process of a container and those of commands have a parent outside it; the container's is the oldest.
        """
        theirs = {}
        for key, numbers in inside.items():
            first = [each for each in found if each.pid in numbers and found[each].parent not in numbers]
            for root in sorted(first, key=lambda each: each.start)[1:]:
                tree = [root, *processes.descendants(found, [root.pid])]
                seconds = sum(found[each].cpu + found[each].of_children for each in tree)
                if seconds >= WORTH_ASKING and root not in self._of_others:
                    self._of_others[root] = root.pid in commands_of_others(self._containers[key])
                if seconds >= WORTH_ASKING and self._of_others[root]:
                    theirs[root] = Command(key, seconds)
        return theirs
