"""A race of replicas that are behind: the rows that each applies on its disks, and which catch up under load."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from replication_lab.faults.disk_limits import changed, lifted
from replication_lab.model.disk import Limits
from replication_lab.model.errors import LabError
from replication_lab.model.proof import Proof
from replication_lab.probes import disk_activity
from replication_lab.probes.disk_activity import DiskWork
from replication_lab.probes.lag import Lag
from replication_lab.probes.redo_log import Cycle
from replication_lab.workloads.row_updates import Pace, RowChanges
from replication_lab.world import clock
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.redo_log import read_redo
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server

ON_ONE_DISKS_WRITES = ("single", "raid1")
REPLICAS = (*ON_ONE_DISKS_WRITES, "raid0")
FLUSHING = {
    "relaxed": {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0},
    "durable": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1},
}

# The disks have to be the limit: busy at least this share of the time. Pauses of a page cleaner and of a busy machine
# take the rest.
BUSY = 0.7
# Disks that warm a replica up: several times as fast as those that are measured. Faster ones use up a backlog too soon.
FAST = Limits(write_iops=1500, read_iops=6000)
# The number of appliers that can commit together.
GROUP = 4
# Tolerance for the source's rate, as a share of the requested rate.
PACE = 0.05
# A replica has caught up when it is at most this many seconds of the load behind.
CAUGHT_UP_SECONDS = 0.3
# A level replica comes so near at least once in this time: bursts come every second or two.
LEVEL_SECONDS = 4
# A mean rate describes an applier only if its longest pause, such as a wait for the redo log, is at most this share.
PAUSE_SHARE = 1 / 3
READ_EVERY = 0.5
LONGEST = 120
# Where the load lies between the (logarithms of the) rates of RAID1 and RAID0: nearer to RAID0, that rests less later;
# nearer to RAID1, the lag of that grows less.
BETWEEN = 0.35
# RAID0 gets a backlog that takes it this share of the load's time to work off, and at least one burst; a slope takes
# some seconds.
DRAIN_SHARE, SLOPE_SECONDS = 0.5, 5
# The rows of one burst: an applier that waited for the redo log applies them at once.
BURST = 400


def raced_arrays(lab: Lab) -> list[Array]:
    return [arrays.array(lab, node) for node in REPLICAS]


@dataclass
class Raced:
    """The result of a race; `commits` are the rows that were changed on the source."""

    commits: int = 0
    figures: dict[str, float | None] = field(default_factory=dict)
    proofs: list[Proof] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Race:
    """Replicas that are `backlog` rows behind and catch up at the same time.

    They do so first on fast disks until `warm` rows are applied, so that the redo log is in its steady cycle; then
    `window` seconds are measured. For `paced` seconds, and `rest` after RAID0 has caught up, the source then writes at
    a rate between those that RAID1 and RAID0 apply.
    """

    changes: RowChanges
    backlog: int
    warm: int
    window: float
    paced: float = 0
    rest: float = 0
    flushing: str = "relaxed"

    def run(self, lab: Lab, seed: int) -> Raced:
        found = Raced()
        lag = Lag(lab.node("source").server(), {node: lab.node(node).server() for node in REPLICAS})
        self._fall_behind(lab, lag, seed, found)
        self._settle(lag)
        with Phase(lab, lag) as whole:
            rate = self._catch_up(lab, lag, found)
            if self.paced:
                self._keep_up(lab, lag, rate, seed, found)
        # Replicas limited by one disk's writes are at their limit all the time, so the whole race measures their rate.
        rows = whole.rows_per_second()
        found.figures |= {f"{name}_rows_per_second_throughout": rows[name] for name in ON_ONE_DISKS_WRITES}
        if self.paced:
            for name in ON_ONE_DISKS_WRITES:
                found.proofs += [_saturated(name, whole, "throughout"), _went_on(name, whole, "throughout")]
        found.samples |= lag.samples
        return found

    def _fall_behind(self, lab: Lab, lag: Lag, seed: int, found: Raced) -> None:
        """Make a backlog, and apply as much of it on fast disks as fills a redo log."""
        for server in lag.replicas.values():
            Replica(server).stop_applier()
        with lifted(raced_arrays(lab)):
            found.commits += self.changes.change(lab, seed, self.backlog)
            for server in lag.replicas.values():
                _wait_until_received(server, lag.source)
            write_back(raced_arrays(lab))
        with ExitStack() as all_fast:
            fast = {name: all_fast.enter_context(_fast_until_closed(arrays.array(lab, name))) for name in lag.replicas}
            before = {name: BinaryLog(server).transactions() for name, server in lag.replicas.items()}
            for server in lag.replicas.values():
                Replica(server).start()
            clock.wait_until(
                lambda: self._slow_down_who_is_warm(fast, lag, before),
                f"{self.warm} rows applied on each replica",
                LONGEST,
            )

    def _slow_down_who_is_warm(self, fast: dict[str, ExitStack], lag: Lag, before: dict[str, int]) -> bool:
        """Restore the disk limits of each replica that has applied `warm` rows; return whether all are limited again.

        The limits return at once, or the replica would apply everything. Its applier keeps running, or the page cleaner
        would write all pages back.
        """
        for name in list(fast):
            server = lag.replicas[name]
            if BinaryLog(server).transactions() - before[name] >= self.warm:
                fast.pop(name).close()
                server.set_global(**FLUSHING[self.flushing])
        return not fast

    def _settle(self, lag: Lag) -> None:
        """Wait until each replica has applied rows on slow disks or has no backlog; a full redo log delays it first."""
        enough = BURST if self.flushing == "relaxed" else GROUP
        lag.read()
        before = {name: counts[-1] for name, counts in lag.applied.items()}

        def have_all_gone_on() -> bool:
            behind = lag.read()
            return all(rows == 0 or lag.applied[name][-1] - before[name] >= enough for name, rows in behind.items())

        clock.wait_until(have_all_gone_on, f"{enough} rows applied by slow disks", LONGEST, every=READ_EVERY)

    # -- both behind -----------------------------------------------------------------------------------------------

    def _catch_up(self, lab: Lab, lag: Lag, found: Raced) -> float:
        """Let all replicas catch up as fast as their disks allow; return a load's rate between RAID1 and RAID0."""
        redo = {name: read_redo(server) for name, server in lag.replicas.items()}
        rate = 0.0
        with Phase(lab, lag) as both_behind:
            self._watch(lag, self.window)
            if self.paced:
                rate = self._until_nearly_level(lag, both_behind)
        for name, server in lag.replicas.items():
            found.proofs += [_still_behind(name, lag.rows[name][-1]), _went_on(name, both_behind, "catching up")]
            if self.flushing == "relaxed":
                cycle = Cycle(name, redo[name], read_redo(server))
                found.proofs += [cycle.proof, _saturated(name, both_behind, "catching up")]
            else:
                # Each commit waits for flushes, one after another: the redo log never fills, and disks take turns.
                found.proofs.append(_flushed(name, both_behind))
        found.figures |= _figures(both_behind)
        return rate

    def _until_nearly_level(self, lag: Lag, behind: "Phase") -> float:
        """Wait until RAID0's backlog is small enough to be worked off during the load; return the load's rate."""

        def is_near() -> bool:
            # Computed anew at each reading: the longer the measurement, the less an applier's bursts matter.
            applied = _known(behind.rows_per_second())
            rate = _rate_between(applied)
            few = (applied["raid0"] - rate) * self.paced * DRAIN_SHARE
            return lag.read()["raid0"] <= max(few, BURST)

        clock.wait_until(is_near, "raid0 to be nearly level", LONGEST, every=READ_EVERY)
        return _rate_between(_known(behind.rows_per_second()))

    def _watch(self, lag: Lag, seconds: float) -> None:
        until = clock.timer() + seconds
        while clock.timer() < until:
            lag.read()
            clock.pause(READ_EVERY)
        lag.read()

    # -- a steady load ---------------------------------------------------------------------------------------------

    def _keep_up(self, lab: Lab, lag: Lag, rate: float, seed: int, found: Raced) -> None:
        """Run a steady load of that rate on the source."""
        with self.changes.pacing(lag.source, seed, rate) as client:
            began = lag.since
            caught_up = self._until_caught_up(lag, client, clock.timer() + self.paced)
            if caught_up is not None:
                with Phase(lab, lag) as after:
                    self._until(clock.timer() + max(self.rest, self.paced - caught_up), lag, client)
                found.figures |= _figures(after, "_after")
            found.commits += client.rows
            found.proofs.append(_paced(client))
            found.figures |= self._slopes(lag, client, began, caught_up)
        found.samples["load_from_s"] = [began]

    def _until_caught_up(self, lag: Lag, client: Pace, ends: float) -> float | None:
        """Return the seconds under load until RAID0 had caught up; None if it had not at the end."""
        began = lag.since
        while clock.timer() < ends:
            client.go_on(READ_EVERY)
            if lag.read()["raid0"] <= _near(client.rate):
                return lag.since - began
        return None

    def _until(self, ends: float, lag: Lag, client: Pace) -> None:
        while clock.timer() < ends:
            client.go_on(READ_EVERY)
            lag.read()

    def _slopes(self, lag: Lag, client: Pace, began: float, caught_up: float | None) -> dict[str, float | None]:
        last = lag.since
        drained = last if caught_up is None else began + max(caught_up, SLOPE_SECONDS)
        until = {"raid1": last, "single": last, "raid0": drained}
        slopes = {name: lag.slope(name, began, end) for name, end in until.items()}
        return {
            "load_rows_per_second": round(client.rows_per_second, 1),
            **{
                f"{name}_lag_slope{end}": round(getattr(found, which), 2) if found else None
                for name, found in slopes.items()
                for end, which in (("", "estimate"), ("_low", "low"), ("_high", "high"))
            },
            **({} if caught_up is None else {"raid0_catch_up_s": round(caught_up, 1)}),
            **_told(lag, client.rate, began, caught_up),
        }


def _told(lag: Lag, rate: float, began: float, caught_up: float | None) -> dict[str, int]:
    """Return whether RAID0 caught up and stayed level, and whether RAID1 kept up; an ambiguous load is no trial."""
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

    It is also None for a RAID0 that was not level before the end and is catching up: it had too little time. Within a
    burst of the source, whether a reading finds it level is chance.
    """
    least = _least_at_the_end(lag, "raid0")
    if was_level and least <= _near(rate):
        return True
    on_its_way = not was_level and _rise(lag, "raid0", began) < -rate * READ_EVERY
    return None if least <= BURST or on_its_way or _stood_still(lag, "raid0") else False


def _kept_up(lag: Lag, rate: float, began: float) -> bool | None:
    """Return True if RAID1 was level at the end or its lag fell, False if its lag rose; else None."""
    rise = _rise(lag, "raid1", began)
    if _least_at_the_end(lag, "raid1") <= _near(rate) or rise < -rate * READ_EVERY:
        return True
    return False if rise > rate * READ_EVERY and not _stood_still(lag, "raid1") else None


def _stood_still(lag: Lag, name: str) -> bool:
    """Return whether an applier waited for its disks for so long at the end that no trough of its lag can be seen."""
    return lag.longest_pause(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1]) >= LEVEL_SECONDS / 2


def _rise(lag: Lag, name: str, began: float) -> int:
    """Return the rise of a lag under the load in rows, between its troughs; each is exact to one reading."""
    return _least_at_the_end(lag, name) - lag.least(name, began, began + LEVEL_SECONDS)


def _least_at_the_end(lag: Lag, name: str) -> int:
    return lag.least(name, lag.at[-1] - LEVEL_SECONDS, lag.at[-1])


def _near(rate: float) -> float:
    """Return the rows behind that count as level under a load of this many rows a second."""
    return rate * CAUGHT_UP_SECONDS


def _fast_until_closed(array: Array) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(changed([array], FAST))
    return stack


class Phase:
    """The work of each replica's disks in a block, and the rows a second that it applied."""

    disks: dict[str, DiskWork]

    def __init__(self, lab: Lab, lag: Lag):
        self._arrays, self._lag = {array.node: array for array in raced_arrays(lab)}, lag

    def __enter__(self) -> "Phase":
        self._before, self._began, self._ended = self._look(), self._lag.since, math.inf
        return self

    def __exit__(self, *_error) -> None:
        self._ended, after = self._lag.since, self._look()
        self.disks = {name: disk_activity.work(self._arrays[name], self._before[name], after[name]) for name in after}

    def rows_per_second(self) -> dict[str, float | None]:
        """Return the rows a second of each replica, in the block so far; None if it was read too seldom."""
        return {name: self._lag.rate(name, self._began, self._ended) for name in self._arrays}

    @property
    def seconds(self) -> float:
        """The duration of the block."""
        return self._ended - self._began

    def longest_pause(self, name: str) -> float:
        """Return the longest time in seconds in the block for which a replica applied nothing."""
        return self._lag.longest_pause(name, self._began, self._ended)

    def _look(self) -> dict[str, list]:
        with ThreadPoolExecutor(len(self._arrays)) as pool:
            return dict(zip(self._arrays, pool.map(disk_activity.look, self._arrays.values()), strict=True))


def _known(applied: dict[str, float | None]) -> dict[str, float]:
    known = {name: rate for name, rate in applied.items() if rate is not None}
    if len(known) < len(applied):
        raise LabError(
            "a busy machine let the replicas be read too seldom to tell what they apply",
            "five readings while all are behind",
            "./lab run raid_replica",
        )
    return known


def _rate_between(applied: dict[str, float]) -> float:
    """Return a load that RAID0 catches up with and RAID1 does not, in rows per second."""
    single, raid1, raid0 = (applied[name] for name in REPLICAS)
    # RAID1 applies as one disk does: the two are two readings of one rate.
    rate = math.sqrt(raid1 * single) ** (1 - BETWEEN) * raid0**BETWEEN
    if rate < 1:
        raise LabError(
            f"RAID1 applied {raid1:.1f} rows/s and RAID0 {raid0:.1f}: no load lies between them",
            "replicas that apply",
            "./lab diagnose raid0",
        )
    return rate


def _figures(phase: Phase, suffix: str = "") -> dict[str, float | None]:
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


def _still_behind(name: str, rows: int) -> Proof:
    return Proof(what=f"{name} was behind all the time", expected="more than 0 rows", found=f"{rows} rows", ok=rows > 0)


def _went_on(name: str, phase: Phase, when: str) -> Proof:
    pause, allowed = phase.longest_pause(name), PAUSE_SHARE * phase.seconds
    return Proof(
        what=f"{name} went on applying {when}",
        expected=f"no pause of {allowed:.1f} s or longer, a third of the time",
        found=f"{pause:.1f} s at the longest",
        ok=pause < allowed,
    )


def _saturated(name: str, phase: Phase, when: str) -> Proof:
    busy = phase.disks[name].busy
    return Proof(
        what=f"the disks of {name} were the limit {when}",
        expected=f"busy for at least {BUSY:.0%} of the time",
        found=f"{busy:.0%}",
        ok=busy >= BUSY,
    )


def _flushed(name: str, phase: Phase) -> Proof:
    flushes, rows = phase.disks[name].flushes_per_second, phase.rows_per_second()[name] or 0.0
    return Proof(
        what=f"commits on {name} waited for flushes",
        expected=f"a flush for every {GROUP} rows at least",
        found=f"{flushes:.1f} flushes and {rows:.1f} rows a second",
        ok=flushes >= rows / GROUP > 0,
    )


def _paced(client: Pace) -> Proof:
    return Proof(
        what="the source was loaded at the rate that was asked for",
        expected=f"{client.rate:.1f} rows/s, {PACE:.0%} more or less",
        found=f"{client.rows_per_second:.1f} rows/s",
        ok=abs(client.rows_per_second - client.rate) <= PACE * client.rate,
    )


def _wait_until_received(server: Server, source: Server) -> None:
    end = BinaryLog(source).end()

    def has_received() -> bool:
        progress = Replica(server).progress()
        return progress is not None and progress.received >= end

    clock.wait_until(has_received, f"{server.name} to have received all", LONGEST)


def write_back(chosen: list[Array]) -> None:
    """Write the page caches of these arrays back now, or slow disks would do so during a measurement."""
    with ThreadPoolExecutor(len(chosen)) as pool:
        list(pool.map(Array.write_back, chosen))
