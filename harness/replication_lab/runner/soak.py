"""Soaks: the rounds that are drawn or read from a file, as drills of one run."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from replication_lab import faults
from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.soak import SoakData, drawn, is_round
from replication_lab.model.lab.topology import Topology
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, clock, given_texts, own
from replication_lab.world.journal import Journal


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rounds of a soak, by name, each as a document like a drill's file."""

    topology: str
    seed: int
    rounds: dict[str, dict[str, Any]]

    def drills(self) -> list[Drill]:
        """Return the rounds as drills; LabError for one that does not fit."""
        topology = catalogue.topology(self.topology)
        return [
            drill_set.parse(name, topology, msgspec.yaml.encode(each), f"the schedule: {name}")
            for name, each in self.rounds.items()
        ]

    def text(self) -> bytes:
        return msgspec.yaml.encode(self)


@cache
def data() -> SoakData:
    """Return what rounds are drawn from."""
    return msgspec.yaml.decode(catalogue.SOAK.read_bytes(), type=SoakData)


def draw(topology: Topology, seed: int, minutes: float) -> Schedule:
    """Return the schedule of a seed; LabError for a topology that has no soak."""
    return Schedule(topology.name, seed, drawn(topology, data(), faults.kinds(), seed, minutes))


def read(path: Path) -> Schedule:
    """Return the schedule of a file that a soak has written; LabError for what does not fit."""
    text, written = given_texts.read(path).text, "a schedule that `lab soak` has written"
    with own.explained(path):
        with as_lab_error(msgspec.MsgspecError, f"{path}", written, "./lab soak --help"):
            found = msgspec.yaml.decode(text, type=Schedule)
    if not found.rounds or not all(map(is_round, found.rounds)):
        raise LabError(f"{path} has no rounds, or a drill with another name", written, "./lab soak --help")
    return found


def until_failure(journal: Journal, seconds: float) -> Callable[[], bool]:
    """Return a function that tells whether another round may begin: the first one may in any case.

    What is not proved is UNKNOWN, and the soak goes on.
    """
    ends = clock.timer() + seconds

    def goes_on() -> bool:
        done = list(journal.record.evidence.values())
        if not done:
            return True
        last = drill_set.result(journal.folder, journal.record, done[-1].drill)
        return clock.timer() < ends and last.exit_code != ExitCode.FINDING

    return goes_on
