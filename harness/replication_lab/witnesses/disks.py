"""Was each change of an emulated disk asked for by this process? Each disk lists them in its container's log."""

import time

from replication_lab.model.core.observation import Happened, Observation
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
        self._before, self._began = {name: len(self._requests(name)) for name in self._disks}, clock.timer()

    def _requests(self, disk: str) -> list[tuple[float, str, str]]:
        """Return when each change of a disk was asked for, by the wall clock, by whom, and which one."""
        lines = [(at, ASKED.search(line)) for at, line in self._lab.service(disk).dated_logs()]
        return [(at, found[1], found[2]) for at, found in lines if found]

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        now, wall = clock.timer(), time.time()
        by_others = [
            Happened(round(now - (wall - at) - zero, 3), f"{sender} asked {disk} for {request}")
            for disk in self._disks
            for at, sender, request in self._requests(disk)[self._before[disk] :]
            if sender != SENDER
        ]
        return Observation(
            self.obligation,
            begin=round(self._began - zero, 3),
            end=round(now - zero, 3),
            contrary=sorted(by_others, key=lambda one: one.at),
        )

    def close(self) -> None:
        """Nothing runs."""


def _command(attributes: dict) -> list[str]:
    return [attributes["Path"], *attributes["Args"]]
