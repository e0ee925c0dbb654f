"""Noise: CPU time that neither the lab's containers nor the harness used, and stolen time."""

from collections.abc import Iterable
from dataclasses import dataclass

from replication_lab.model.record import Noise
from replication_lab.world import host
from replication_lab.world.docker.lab import Lab

# The engine, its shims and the kernel's own work for the lab count as foreign too: measured at 2-9 % of two cores
# under full load. A quarter means another program. Stolen time above a twentieth has bent every timing seen here.
FOREIGN_LIMIT, STEAL_LIMIT = 0.25, 0.05


@dataclass(frozen=True)
class NoiseMeter:
    """A meter that is started before a measurement and read after it."""

    labs: tuple[Lab, ...]
    machine: host.CpuTime
    containers: float

    @classmethod
    def start(cls, labs: Iterable[Lab]) -> "NoiseMeter":
        labs = tuple(labs)
        return cls(labs, host.CpuTime.read(), _cpu_seconds(labs))

    def restarted(self) -> "NoiseMeter":
        """Return another meter for the same labs, started now."""
        return NoiseMeter.start(self.labs)

    def read(self) -> Noise:
        """Return the shares of all CPUs since the start; quiet unless a limit was exceeded."""
        now, used = host.CpuTime.read(), _cpu_seconds(self.labs) - self.containers
        total = max(now.total - self.machine.total, 1e-3)
        foreign = (now.busy - self.machine.busy - used - (now.own - self.machine.own)) / total
        steal = (now.stolen - self.machine.stolen) / total
        why = _why_noisy(max(foreign, 0.0), steal)
        return Noise(
            foreign_cpu=round(max(foreign, 0.0), 4),
            steal=round(steal, 4),
            psi_cpu_some=host.cpu_pressure(),
            load1=round(host.load1(), 2),
            quiet=not why,
            why=why,
        )


def _cpu_seconds(labs: tuple[Lab, ...]) -> float:
    return sum(lab.cpu_seconds() for lab in labs)


def _why_noisy(foreign: float, steal: float) -> str:
    if foreign > FOREIGN_LIMIT:
        return f"other programs used {foreign:.0%} of the CPUs (limit {FOREIGN_LIMIT:.0%})"
    if steal > STEAL_LIMIT:
        return f"{steal:.0%} of the CPU time was stolen by other virtual machines (limit {STEAL_LIMIT:.0%})"
    return ""
