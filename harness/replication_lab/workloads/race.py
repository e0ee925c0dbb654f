"""A race of replicas: what is measured of its phases, the proofs of disks and load, and whether each kept up."""

import math

from replication_lab.model.core.errors import LabError, TooSlow
from replication_lab.model.core.proof import Proof
from replication_lab.probes import disk_activity
from replication_lab.probes.disk_activity import DiskWork
from replication_lab.probes.lag import Lag
from replication_lab.workloads.row_updates import Pace
from replication_lab.world import at_once
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab

ON_ONE_DISKS_WRITES = ("single", "raid1")
REPLICAS = (*ON_ONE_DISKS_WRITES, "raid0")

# A replica has caught up when it is at most this many seconds of the load behind.
CAUGHT_UP_SECONDS = 0.3
# Seconds. A level replica comes this near at least once in this time, since bursts come every one or two seconds.
LEVEL_SECONDS = 4
READ_EVERY = 0.5
# The place of the load between the logarithms of the rates of RAID1 and RAID0. Nearer to RAID0, RAID0 is idle less
# after it has caught up; nearer to RAID1, the lag of RAID1 grows less.
BETWEEN = 0.35
# The rows of one burst: an applier that waited for the redo log applies them at once.
BURST = 400


def rate_between(applied: dict[str, float]) -> float:
    """Return a load that RAID0 catches up with and RAID1 does not, in rows per second."""
    single, raid1, raid0 = (applied[name] for name in REPLICAS)
    # RAID1 applies at the rate of one disk, so both are readings of the same rate.
    rate: float = math.sqrt(raid1 * single) ** (1 - BETWEEN) * raid0**BETWEEN
    if rate < 1:
        raise LabError(
            f"RAID1 applied {raid1:.1f} rows/s and RAID0 {raid0:.1f}: no load lies between them",
            "replicas that apply at least one row per second",
            "./lab diagnose raid0",
        )
    return rate


def judged(lag: Lag, rate: float, began: float, caught_up: float | None) -> dict[str, int]:
    """Return whether RAID0 caught up and stayed in sync, and whether RAID1 kept up; None for an ambiguous load."""
    raid0 = _caught_up(lag, rate, began, caught_up is not None)
    raid1 = _kept_up(lag, rate, began)
    return {
        "raid0_loads_that_tell": int(raid0 is not None),
        "raid0_never_caught_up": int(raid0 is False),
        "raid1_loads_that_tell": int(raid1 is not None),
        "raid1_kept_up": int(raid1 is True),
    }


def _caught_up(lag: Lag, rate: float, began: float, was_level: bool) -> bool | None:
    """Return whether RAID0 is level at the end: False if it ends more than a burst behind, None if that is ambiguous.

    It is also None if RAID0 was not level before the end and is catching up: it had too little time. Within a burst of
    the source, it depends on chance whether a reading finds it level.
    """
    least = _least_at_the_end(lag, "raid0")
    if was_level and least <= near(rate):
        return True
    on_its_way = not was_level and _rise(lag, "raid0", began) < -rate * READ_EVERY
    return None if least <= BURST or on_its_way or _stood_still(lag, "raid0") else False


def _kept_up(lag: Lag, rate: float, began: float) -> bool | None:
    """Return True if RAID1 was level at the end or its lag fell, False if its lag rose; else None."""
    rise = _rise(lag, "raid1", began)
    if _least_at_the_end(lag, "raid1") <= near(rate) or rise < -rate * READ_EVERY:
        return True
    return False if rise > rate * READ_EVERY and not _stood_still(lag, "raid1") else None


def _stood_still(lag: Lag, name: str) -> bool:
    """Return whether an applier waited for its disks so long at the end that no trough of its lag is visible."""
    return lag.longest_pause(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1]) >= LEVEL_SECONDS / 2


def _rise(lag: Lag, name: str, began: float) -> int:
    """Return the rise of a lag under the load in rows, between its troughs; each is exact to one reading."""
    return _least_at_the_end(lag, name) - lag.least(name, began, began + LEVEL_SECONDS)


def _least_at_the_end(lag: Lag, name: str) -> int:
    return lag.least(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1])


def near(rate: float) -> float:
    """Return the rows behind that count as level under a load of this many rows a second."""
    return rate * CAUGHT_UP_SECONDS


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
