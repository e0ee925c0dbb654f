"""What is measured of a phase of a race, and the proofs that the disks and the load were as intended."""

import math

from replication_lab.model.core.errors import TooSlow
from replication_lab.model.core.proof import Proof
from replication_lab.probes import disk_activity
from replication_lab.probes.disk_activity import DiskWork
from replication_lab.probes.lag import Lag
from replication_lab.workloads.race import REPLICAS
from replication_lab.workloads.row_updates import Pace
from replication_lab.world import at_once
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab

# The disks have to be the limit: busy at least this share of the time. Pauses of a page cleaner and of a busy machine
# take the rest.
BUSY = 0.7
# The number of appliers that can commit together.
GROUP = 4
# Tolerance for the source's rate, as a share of the requested rate.
PACE = 0.05
# A mean rate describes an applier only if its longest pause, such as a wait for the redo log, is at most this share.
PAUSE_SHARE = 1 / 3


def raced_arrays(lab: Lab) -> list[Array]:
    return [arrays.array(lab, node) for node in REPLICAS]


class RacePhase:
    """The work of each replica's disks in a block, and the rows a second that it applied."""

    disks: dict[str, DiskWork]

    def __init__(self, lab: Lab, lag: Lag):
        self._arrays, self._lag = {array.node: array for array in raced_arrays(lab)}, lag

    def __enter__(self) -> "RacePhase":
        self._before, self._began, self._ended = self._look(), self._lag.since, math.inf
        return self

    def __exit__(self, *_error) -> None:
        self._ended, after = self._lag.since, self._look()
        self.disks = {name: disk_activity.work(self._arrays[name], self._before[name], after[name]) for name in after}

    def rows_per_second(self) -> dict[str, float | None]:
        """Return the rows a second of each replica, in the block so far; None if it was read too seldom."""
        return {name: self._lag.rate(name, self._began, self._ended) for name in self._arrays}

    def known_rows_per_second(self) -> dict[str, float]:
        """Return the rows a second of each replica; TooSlow if one was read too seldom."""
        applied = self.rows_per_second()
        known = {name: rate for name, rate in applied.items() if rate is not None}
        if len(known) < len(applied):
            raise TooSlow(
                "the host was too busy: there are too few readings of what the replicas apply",
                "five readings while all are behind",
                "./lab run raid_replica",
            )
        return known

    @property
    def seconds(self) -> float:
        """The duration of the block."""
        return self._ended - self._began

    def longest_pause(self, name: str) -> float:
        """Return the longest time in seconds in the block for which a replica applied nothing."""
        return self._lag.longest_pause(name, self._began, self._ended)

    def _look(self) -> dict[str, list]:
        return dict(zip(self._arrays, at_once.of_each(disk_activity.look, self._arrays.values()), strict=True))


def figures(phase: RacePhase, suffix: str = "") -> dict[str, float | None]:
    rows = phase.rows_per_second()
    return {
        f"{name}_{what}{suffix}": value
        for name, disks in phase.disks.items()
        for what, value in (
            ("writes_per_second", round(disks.writes_per_second, 3)),
            ("reads_per_second", round(disks.reads_per_second, 3)),
            ("busy", round(disks.busy, 3)),
            ("rows_per_second", rows[name]),
        )
    }


def still_behind(name: str, rows: int) -> Proof:
    return Proof(what=f"{name} was behind all the time", expected="at least 1 row", found=f"{rows} rows", ok=rows > 0)


def went_on(name: str, phase: RacePhase, when: str) -> Proof:
    pause, allowed = phase.longest_pause(name), PAUSE_SHARE * phase.seconds
    return Proof(
        what=f"{name} continued to apply {when}",
        expected=f"no pause of {allowed:.1f} s (a third of the time) or longer",
        found=f"{pause:.1f} s is the longest pause",
        ok=pause < allowed,
        slow=pause >= allowed,
    )


def saturated(name: str, phase: RacePhase, when: str) -> Proof:
    busy = phase.disks[name].busy
    return Proof(
        what=f"the disks of {name} were the limit {when}",
        expected=f"busy at least {BUSY:.0%} of the time",
        found=f"{busy:.0%}",
        ok=busy >= BUSY,
        slow=busy < BUSY,
    )


def flushed(name: str, phase: RacePhase) -> Proof:
    flushes, rows = phase.disks[name].flushes_per_second, phase.rows_per_second()[name] or 0.0
    return Proof(
        what=f"commits on {name} waited for flushes",
        expected=f"at least one flush for every {GROUP} rows",
        found=f"{flushes:.1f} flushes/s and {rows:.1f} rows/s",
        ok=flushes >= rows / GROUP > 0,
    )


def paced(client: Pace) -> Proof:
    return Proof(
        what="the source was loaded at the requested rate",
        expected=f"{client.rate:.1f} rows/s (±{PACE:.0%})",
        found=f"{client.rows_per_second:.1f} rows/s",
        ok=abs(client.rows_per_second - client.rate) <= PACE * client.rate,
        slow=client.rows_per_second < client.rate * (1 - PACE),
    )
