"""Noise: CPU time that neither the lab's containers nor the harness used, by whom, and stolen time.

The processes that publish the lab's ports (`docker-proxy`) count as the lab's own.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.progress import Tell
from replication_lab.world import clock, host
from replication_lab.world.docker import machine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.processes import CpuByProcess, Process, of_published_ports

# The engine, its shims and the kernel's own work for the lab count as foreign too: measured at 2-9 % of two cores
# under full load. A quarter means another program. The same limit holds for the CPUs that nodes are pinned to: on two
# CPUs a quarter of both can be half of the one that a source has. Stolen time above a twentieth has bent every timing
# seen here.
FOREIGN_LIMIT, STEAL_LIMIT = 0.25, 0.05
# A process is named if it used this share of one CPU.
NAMED = 0.05
# A machine is quiet again after so many quiet windows of this length, in seconds.
WINDOW, QUIET_WINDOWS = 1.0, 3


@dataclass(frozen=True)
class Used:
    """CPU seconds so far of the machine, of each CPU (busy, total), and of each container, by its lab and its name.

    `pinned` holds the CPUs of the containers that are pinned to some, `ports` the CPU seconds of each `docker-proxy`.
    """

    machine: host.CpuTime
    cpus: dict[int, tuple[float, float]]
    containers: dict[tuple[int, str], float]
    pinned: dict[tuple[int, str], str]
    ports: dict[Process, float] = field(default_factory=dict)

    @classmethod
    def read(cls, labs: Iterable[Lab]) -> "Used":
        labs = tuple(labs)
        return cls(
            host.CpuTime.read(),
            host.seconds_by_cpu(),
            {
                (at, name): seconds
                for at, lab in enumerate(labs)
                for name, seconds in lab.all_containers.cpu_seconds().items()
            },
            {(at, name): cpus for at, lab in enumerate(labs) for name, cpus in lab.pinned.items()},
            of_published_ports(subnet for lab in labs for subnet in lab.all_containers.subnets),
        )

    def steal_since(self, before: "Used") -> float:
        return (self.machine.stolen - before.machine.stolen) / self._seconds_since(before)

    def own_since(self, before: "Used") -> float:
        """Return the share of all CPUs that the containers, each `docker-proxy` of theirs and the harness used."""
        used = sum(self._containers_since(before).values()) + self._own_since(before)
        return used / self._seconds_since(before)

    def foreign_since(self, before: "Used") -> float:
        """Return the share of all CPUs that neither the containers nor the harness used since then."""
        busy = (self.machine.busy - before.machine.busy) / self._seconds_since(before)
        return max(busy - self.own_since(before), 0.0)

    def foreign_of_pinned_since(self, before: "Used") -> dict[str, float]:
        """Return at least what share of the CPUs that containers are pinned to others used since then, by the CPUs.

        The CPUs of the harness and of containers that are not pinned are not known. All they used is deducted from
        each, so a load of clients in the harness is not taken for another program.
        """
        used = self._containers_since(before)
        anywhere = used.pop("", 0.0) + self._own_since(before)
        found = {}
        for cpus, seconds in used.items():
            numbers = [int(number) for number in cpus.split(",") if int(number) in before.cpus]
            busy, total = (sum(self.cpus[n][i] - before.cpus[n][i] for n in numbers) for i in (0, 1))
            found[cpus] = max(busy - seconds - anywhere, 0.0) / max(total, 1e-3)
        return found

    def _seconds_since(self, before: "Used") -> float:
        return max(self.machine.total - before.machine.total, 1e-3)

    def _own_since(self, before: "Used") -> float:
        """Return the CPU seconds of the harness and of the processes that publish the containers' ports."""
        of_ports = sum(seconds - before.ports.get(process, 0.0) for process, seconds in self.ports.items())
        return self.machine.own - before.machine.own + of_ports

    def _containers_since(self, before: "Used") -> dict[str, float]:
        """Return the CPU seconds that containers used since then, by the CPUs that they are pinned to.

        Containers that are not pinned are under an empty text. What one used before it ended by itself is not known.
        """
        used: dict[str, float] = defaultdict(float)
        for key, seconds in self.containers.items():
            used[self.pinned.get(key, "")] += max(seconds - before.containers.get(key, 0.0), 0.0)
        return used


@dataclass(frozen=True)
class NoiseMeter:
    """A meter that is started before a measurement and read after it."""

    labs: tuple[Lab, ...]
    used: Used
    processes: CpuByProcess
    began: float

    @classmethod
    def start(cls, labs: Iterable[Lab]) -> "NoiseMeter":
        labs = tuple(labs)
        used = Used.read(labs)
        return cls(labs, used, CpuByProcess.read(_ids(labs), used.ports), clock.timer())

    def restarted(self) -> "NoiseMeter":
        """Return another meter for the same labs, started now."""
        return NoiseMeter.start(self.labs)

    def read(self) -> Noise:
        """Return the shares of all CPUs since the start; quiet unless a limit was exceeded."""
        if elsewhere := machine.facts().elsewhere:
            return Noise(
                quiet=False, readable=False, why=f"the load of the Docker engine's machine cannot be read: {elsewhere}"
            )
        now = Used.read(self.labs)
        foreign, steal = now.foreign_since(self.used), now.steal_since(self.used)
        why = _why_foreign(foreign, now.foreign_of_pinned_since(self.used))
        why = why + self._by_whom(now) if why else _why_stolen(steal)
        return Noise(
            foreign_cpu=round(foreign, 4),
            own_cpu=round(now.own_since(self.used), 4),
            steal=round(steal, 4),
            psi_cpu_some=host.cpu_pressure(),
            load1=round(host.load1(), 2),
            quiet=not why,
            why=why,
        )

    def _by_whom(self, now: Used) -> str:
        """Return the names of the busiest processes with their shares of one CPU; empty if none stands out."""
        seconds = max(clock.timer() - self.began, 1e-3)
        spent = CpuByProcess.read(_ids(self.labs), now.ports).busiest_since(self.processes)
        named = [f"{name} {used / seconds:.0%} of a CPU" for name, used in spent if used / seconds >= NAMED]
        return f": {', '.join(named)}" if named else ""


def wait_for_quiet(labs: Iterable[Lab], seconds: float, tell: Tell) -> bool:
    """Wait until the machine is quiet while no load runs, at most this long; return whether it is.

    Return False at once if the engine runs on another machine, whose load is not known.
    """
    if machine.facts().elsewhere:
        return False
    labs, quiet, told = tuple(labs), 0, ""
    meter = NoiseMeter.start(labs)

    def is_quiet() -> bool:
        nonlocal quiet, told, meter
        found = meter.read()
        quiet, meter = (quiet + 1 if found.quiet else 0), meter.restarted()
        if found.why and not told:
            told = found.why
            tell(f"  waiting for a quiet machine, at most {seconds:.0f} s: {found.why}")
        return quiet >= QUIET_WINDOWS

    clock.pause(WINDOW)
    try:
        return clock.wait_until(is_quiet, "a quiet machine", seconds, every=WINDOW)
    except LabError:
        return False


def _ids(labs: tuple[Lab, ...]) -> list[str]:
    return [container.id or "" for lab in labs for container in lab.all_containers.every.values()]


def _why_foreign(foreign: float, of_pinned: dict[str, float]) -> str:
    shares = {"the CPUs": foreign}
    for cpus, share in of_pinned.items():
        shares[f"CPU{'s' if ',' in cpus else ''} {cpus}, to which nodes are pinned"] = share
    for what, share in shares.items():
        if share > FOREIGN_LIMIT:
            return f"other programs used {share:.0%} of {what} (limit {FOREIGN_LIMIT:.0%})"
    return ""


def _why_stolen(steal: float) -> str:
    if steal > STEAL_LIMIT:
        return f"{steal:.0%} of the CPU time was stolen by other virtual machines (limit {STEAL_LIMIT:.0%})"
    return ""
