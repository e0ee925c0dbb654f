"""Did others stop the lab's processes, or confine them? Root of the host needs no request to the engine for that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from replication_lab.model.core.errors import LabError
from replication_lab.witnesses.sampled import LATE_SECONDS, Sampled
from replication_lab.world import clock, processes
from replication_lab.world.docker import control_groups, reach
from replication_lab.world.docker.containers import engine_of
from replication_lab.world.docker.lab import Lab
from replication_lab.world.requests_made import EXCHANGE, made

UNCONFINED = "no other program stopped a process of the lab, or changed the limits of its containers"
# Often enough for what lasts a second; a reading takes some milliseconds.
READ_SECONDS = 0.7


@dataclass(frozen=True)
class LabOnMachine:
    """The containers of a lab on the machine of a site, each ID by its service, as they were at a moment."""

    site: str
    containers: Mapping[str, str]
    known: float = field(default_factory=clock.timer)

    @classmethod
    def of(cls, lab: Lab, site: str) -> "LabOnMachine":
        every = lab.all_containers.every
        return cls(site, {name: str(one.id) for name, one in every.items() if engine_of(one).site == site})

    @cached_property
    def paths(self) -> list[str]:
        """The files to read of that machine, if it is not this one."""
        of = (control_groups.FILES, control_groups.LIMITS)
        groups = [
            path for each in self.containers.values() for files in of for path in control_groups.paths(each, files)
        ]
        return ["/proc/[0-9]*/stat", *groups]

    def refuse_if_exchanged(self) -> None:
        """Raise LabError if the lab has made one of the containers again since then."""
        if any(one.kind == EXCHANGE and self.known < one.ended < inf for one in made()):
            raise LabError("a container was exchanged", "its new container")


def confinement(lab: Lab) -> Sampled[LabOnMachine]:
    """Return the witness of all containers of a lab; those of a rootless engine have their groups elsewhere."""
    sites = {engine_of(each).site for each in lab.all_containers.every.values()}
    readings = {site: Confinement() for site in sites}
    return Sampled(UNCONFINED, lab, readings, LabOnMachine.of, lambda *_: True, every=READ_SECONDS)


@dataclass
class Confinement:
    """What confines containers, and which of their processes a signal has stopped, compared with the reading before."""

    _limits: dict[str, dict[str, str]] = field(default_factory=dict)
    _stopped: dict[int, str] = field(default_factory=dict)
    _last: float | None = None

    def __call__(self, lab: LabOnMachine) -> list[str]:
        lab.refuse_if_exchanged()
        files = reach.machine_files(*lab.paths, site=lab.site)
        since, told, stopped = self._last, list[str](), dict[int, str]()
        for name, container in lab.containers.items():
            now, before = control_groups.limits(container, files), self._limits.get(container, {})
            # One that has ended has no groups until it is started again.
            self._limits[container] = before | now
            here = processes.stopped(control_groups.processes(container, files), files)
            stopped |= here
            if since is not None and not _is_own(container, since):
                told += [f"{file} of {name} was {now[file]}, after {before[file]}" for file in _other(before, now)]
                told += [f"a signal stopped {each} in {name}" for pid, each in here.items() if pid not in self._stopped]
        self._stopped, self._last = stopped, clock.timer()
        return told


def _other(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [file for file in now if file in before and now[file] != before[file]]


def _is_own(container: str, since: float) -> bool:
    """Return whether a request of this process may have changed a container since a moment."""
    return any(one.what == container and one.overlaps(since - LATE_SECONDS, clock.timer()) for one in made())
