"""The judgement of a race: a load between the rates of two replicas, and whether each kept up with it."""

import math

from replication_lab.model.core.errors import LabError
from replication_lab.probes.lag import LagReadings

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


def judged(lag: LagReadings, rate: float, began: float, caught_up: float | None) -> dict[str, int]:
    """Return whether RAID0 caught up and stayed in sync, and whether RAID1 kept up; None for an ambiguous load."""
    raid0 = _caught_up(lag, rate, began, caught_up is not None)
    raid1 = _kept_up(lag, rate, began)
    return {
        "raid0_loads_that_tell": int(raid0 is not None),
        "raid0_never_caught_up": int(raid0 is False),
        "raid1_loads_that_tell": int(raid1 is not None),
        "raid1_kept_up": int(raid1 is True),
    }


def _caught_up(lag: LagReadings, rate: float, began: float, was_level: bool) -> bool | None:
    """Return whether RAID0 is level at the end: False if it ends more than a burst behind, None if that is ambiguous.

    It is also None if RAID0 was not level before the end and is catching up: it had too little time. Within a burst of
    the source, it depends on chance whether a reading finds it level.
    """
    least = _least_at_the_end(lag, "raid0")
    if was_level and least <= near(rate):
        return True
    on_its_way = not was_level and _rise(lag, "raid0", began) < -rate * READ_EVERY
    return None if least <= BURST or on_its_way or _stood_still(lag, "raid0") else False


def _kept_up(lag: LagReadings, rate: float, began: float) -> bool | None:
    """Return True if RAID1 was level at the end or its lag fell, False if its lag rose; else None."""
    rise = _rise(lag, "raid1", began)
    if _least_at_the_end(lag, "raid1") <= near(rate) or rise < -rate * READ_EVERY:
        return True
    return False if rise > rate * READ_EVERY and not _stood_still(lag, "raid1") else None


def _stood_still(lag: LagReadings, name: str) -> bool:
    """Return whether an applier waited for its disks so long at the end that no trough of its lag is visible."""
    return lag.longest_pause(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1]) >= LEVEL_SECONDS / 2


def _rise(lag: LagReadings, name: str, began: float) -> int:
    """Return the rise of a lag under the load in rows, between its troughs; each is exact to one reading."""
    return _least_at_the_end(lag, name) - lag.least(name, began, began + LEVEL_SECONDS)


def _least_at_the_end(lag: LagReadings, name: str) -> int:
    return lag.least(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1])


def near(rate: float) -> float:
    """Return the rows behind that count as level under a load of this many rows a second."""
    return rate * CAUGHT_UP_SECONDS
