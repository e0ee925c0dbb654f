"""Was each change of an emulated disk requested by this process? Each disk lists them in its container's log."""

import time

from replication_lab.model.core.observation import Observation
from replication_lab.world import clock
from replication_lab.world.disks.spindle import ASKED
from replication_lab.world.docker.lab import Lab
from replication_lab.world.requests_made import SENDER

PLUGIN = "/usr/local/lib/spindle.so"


class DiskWitness:
    """The emulated disks of a lab, observed from its making on: their limits, their write cache, and their failures."""

    obligation = "no other program changed an emulated disk of the lab"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._disks = [name for name, each in lab.containers.items() if PLUGIN in _command(each.attrs)]
        self._before = {name: self._lab.service(name).dated_logs() for name in self._disks}
        self._began = clock.timer()

    def _by_others(self, disk: str, wall: float) -> list[tuple[float, str]]:
        """Return each change of a disk since the beginning that others requested, with its time by the wall clock."""
        log, before = self._lab.service(disk).dated_logs(), self._before[disk]
        if log[: len(before)] != before:
            return [(wall, f"the log of {disk} had lost its first lines")]
        lines = [(at, ASKED.search(line)) for at, line in log[len(before) :]]
        return [(at, f"{found[1]} asked {disk} for {found[2]}") for at, found in lines if found and found[1] != SENDER]

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        now, wall = clock.timer(), time.time()
        by_others = [(now - (wall - at), what) for disk in self._disks for at, what in self._by_others(disk, wall)]
        return Observation.between(self.obligation, zero, (self._began, now), by_others)

    def close(self) -> None:
        """Nothing runs."""


def _command(attributes: dict) -> list[str]:
    return [attributes["Path"], *(attributes["Args"] or [])]
