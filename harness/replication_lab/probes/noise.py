"""Noise: CPU time that neither the lab's containers nor the harness used, by whom, and stolen time."""

from collections.abc import Iterable
from dataclasses import dataclass

from replication_lab.model.errors import LabError
from replication_lab.model.progress import Tell
from replication_lab.model.record import Noise
from replication_lab.world import clock, host
from replication_lab.world.docker import machine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.processes import CpuByProcess

# The engine, its shims and the kernel's own work for the lab count as foreign too: measured at 2-9 % of two cores
# under full load. A quarter means another program. Stolen time above a twentieth has bent every timing seen here.
FOREIGN_LIMIT, STEAL_LIMIT = 0.25, 0.05
# A process is named if it used this share of one CPU.
NAMED = 0.05
# A machine is quiet again after so many quiet windows of this length, in seconds.
WINDOW, QUIET_WINDOWS = 1.0, 3


@dataclass(frozen=True)
class NoiseMeter:
    """A meter that is started before a measurement and read after it."""

    labs: tuple[Lab, ...]
    machine: host.CpuTime
    containers: float
    processes: CpuByProcess
    began: float

    @classmethod
    def start(cls, labs: Iterable[Lab]) -> "NoiseMeter":
        labs = tuple(labs)
        processes = CpuByProcess.read(_ids(labs))
        return cls(labs, host.CpuTime.read(), _cpu_seconds(labs), processes, clock.timer())

    def restarted(self) -> "NoiseMeter":
        """Return another meter for the same labs, started now."""
        return NoiseMeter.start(self.labs)

    def read(self) -> Noise:
        """Return the shares of all CPUs since the start; quiet unless a limit was exceeded."""
        if elsewhere := machine.facts().elsewhere:
            return Noise(
                quiet=False, readable=False, why=f"the load of the Docker engine's machine cannot be read: {elsewhere}"
            )
        now, used = host.CpuTime.read(), _cpu_seconds(self.labs) - self.containers
        total = max(now.total - self.machine.total, 1e-3)
        foreign = (now.busy - self.machine.busy - used - (now.own - self.machine.own)) / total
        steal = (now.stolen - self.machine.stolen) / total
        why = _why_noisy(max(foreign, 0.0), steal)
        if why and foreign > FOREIGN_LIMIT:
            why += self._by_whom()
        return Noise(
            foreign_cpu=round(max(foreign, 0.0), 4),
            steal=round(steal, 4),
            psi_cpu_some=host.cpu_pressure(),
            load1=round(host.load1(), 2),
            quiet=not why,
            why=why,
        )

    def _by_whom(self) -> str:
        """Return the names of the busiest processes with their shares of one CPU; empty if none stands out."""
        seconds = max(clock.timer() - self.began, 1e-3)
        spent = CpuByProcess.read(_ids(self.labs)).busiest_since(self.processes)
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
    return [container.id or "" for lab in labs for container in lab.containers.values()]


def _cpu_seconds(labs: tuple[Lab, ...]) -> float:
    return sum(lab.cpu_seconds() for lab in labs)


def _why_noisy(foreign: float, steal: float) -> str:
    if foreign > FOREIGN_LIMIT:
        return f"other programs used {foreign:.0%} of the CPUs (limit {FOREIGN_LIMIT:.0%})"
    if steal > STEAL_LIMIT:
        return f"{steal:.0%} of the CPU time was stolen by other virtual machines (limit {STEAL_LIMIT:.0%})"
    return ""
