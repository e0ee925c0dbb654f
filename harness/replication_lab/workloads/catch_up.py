"""A race of replicas that are behind: the rows that each applies on its disks, and which catch up under load."""

from contextlib import ExitStack
from dataclasses import dataclass, field

from replication_lab.faults.disks import changed
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.probes.lag import Lag
from replication_lab.probes.redo_log import read_redo, was_steady
from replication_lab.workloads import race
from replication_lab.workloads.row_updates import Pace, RowChanges
from replication_lab.world import at_once, clock
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import APPLIER, Replica

FLUSHING = {
    "relaxed": {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0},
    "durable": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1},
}

# Disks that warm a replica up: several times as fast as those that are measured. Faster ones use up a backlog too soon.
FAST = Limits(write_iops=1500, read_iops=6000)
LONGEST = 120
# RAID0 gets a backlog that takes it this share of the load's time to work off, and at least one burst; a slope takes
# some seconds.
DRAIN_SHARE, SLOPE_SECONDS = 0.5, 5


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
        lag = Lag(lab.node("source").server(), {node: lab.node(node).server() for node in race.REPLICAS})
        self._fall_behind(lab, lag, seed, found)
        self._settle(lag)
        with race.RacePhase(lab, lag) as whole:
            rate = self._catch_up(lab, lag, found)
            if self.paced:
                self._keep_up(lab, lag, rate, seed, found)
        # Replicas limited by one disk's writes are at their limit all the time, so the whole race measures their rate.
        rows = whole.rows_per_second()
        found.figures |= {f"{name}_rows_per_second_throughout": rows[name] for name in race.ON_ONE_DISKS_WRITES}
        if self.paced:
            for name in race.ON_ONE_DISKS_WRITES:
                found.proofs += [race.saturated(name, whole, "throughout"), race.went_on(name, whole, "throughout")]
        found.samples |= lag.samples
        return found

    def _fall_behind(self, lab: Lab, lag: Lag, seed: int, found: Raced) -> None:
        """Make a backlog, and apply as much of it on fast disks as fills a redo log."""
        for server in lag.replicas.values():
            Replica(server).stop_thread(APPLIER)
        with changed(race.raced_arrays(lab), Limits()):
            found.commits += self.changes.change(lab, seed, self.backlog)
            for server in lag.replicas.values():
                Replica(server).wait_until_received(BinaryLog(lag.source).end(), LONGEST)
            # Otherwise slow disks would write the page caches back during a measurement.
            at_once.of_each(Array.write_back, race.raced_arrays(lab))
        with ExitStack() as all_fast:
            fast = {name: all_fast.enter_context(_fast_until_closed(arrays.array(lab, name))) for name in lag.replicas}
            before = {name: BinaryLog(server).transactions() for name, server in lag.replicas.items()}
            for server in lag.replicas.values():
                Replica(server).start()
            clock.wait_until(
                lambda: self._limit_warm_replicas(fast, lag, before),
                f"each replica to apply {self.warm} rows",
                LONGEST,
            )

    def _limit_warm_replicas(self, fast: dict[str, ExitStack], lag: Lag, before: dict[str, int]) -> bool:
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
        enough = race.BURST if self.flushing == "relaxed" else race.GROUP
        lag.read()
        before = {name: counts[-1] for name, counts in lag.applied.items()}

        def have_all_gone_on() -> bool:
            behind = lag.read()
            return all(rows == 0 or lag.applied[name][-1] - before[name] >= enough for name, rows in behind.items())

        clock.wait_until(
            have_all_gone_on, f"each replica to apply {enough} rows with slow disks", LONGEST, every=race.READ_EVERY
        )

    # -- both behind -----------------------------------------------------------------------------------------------

    def _catch_up(self, lab: Lab, lag: Lag, found: Raced) -> float:
        """Let all replicas catch up as fast as their disks allow; return a load's rate between RAID1 and RAID0."""
        redo = {name: read_redo(server) for name, server in lag.replicas.items()}
        rate = 0.0
        with race.RacePhase(lab, lag) as both_behind:
            self._watch(lag, self.window)
            if self.paced:
                rate = self._until_nearly_level(lag, both_behind)
        for name, server in lag.replicas.items():
            found.proofs += [
                race.still_behind(name, lag.rows[name][-1]),
                race.went_on(name, both_behind, "catching up"),
            ]
            if self.flushing == "relaxed":
                steady = was_steady(name, redo[name], read_redo(server))
                found.proofs += [steady, race.saturated(name, both_behind, "catching up")]
            else:
                # Each commit waits for flushes, one after another: the redo log never fills, and disks take turns.
                found.proofs.append(race.flushed(name, both_behind))
        found.figures |= race.figures(both_behind)
        return rate

    def _until_nearly_level(self, lag: Lag, behind: race.RacePhase) -> float:
        """Wait until RAID0's backlog is small enough to be worked off during the load; return the load's rate."""

        def is_near() -> bool:
            # Recomputed at each reading: over a longer measurement an applier's bursts matter less.
            applied = behind.known_rows_per_second()
            rate = race.rate_between(applied)
            few = (applied["raid0"] - rate) * self.paced * DRAIN_SHARE
            return lag.read()["raid0"] <= max(few, race.BURST)

        clock.wait_until(is_near, "raid0 to be nearly in sync", LONGEST, every=race.READ_EVERY)
        return race.rate_between(behind.known_rows_per_second())

    def _watch(self, lag: Lag, seconds: float) -> None:
        until = clock.timer() + seconds
        while clock.timer() < until:
            lag.read()
            clock.pause(race.READ_EVERY)
        lag.read()

    # -- a steady load ---------------------------------------------------------------------------------------------

    def _keep_up(self, lab: Lab, lag: Lag, rate: float, seed: int, found: Raced) -> None:
        with lag.source.session() as connection:
            client, began = Pace(self.changes, connection, rate, seed), lag.since
            caught_up = self._until_caught_up(lag, client, clock.timer() + self.paced)
            if caught_up is not None:
                with race.RacePhase(lab, lag) as after:
                    self._until(clock.timer() + max(self.rest, self.paced - caught_up), lag, client)
                found.figures |= race.figures(after, "_after")
            found.commits += client.rows
            found.proofs.append(race.paced(client))
            found.figures |= self._slopes(lag, client, began, caught_up)
        found.samples["load_from_s"] = [began]

    def _until_caught_up(self, lag: Lag, client: Pace, ends: float) -> float | None:
        """Return the seconds under load until RAID0 had caught up; None if it had not at the end."""
        began = lag.since
        while clock.timer() < ends:
            client.continue_for(race.READ_EVERY)
            if lag.read()["raid0"] <= race.near(client.rate):
                return lag.since - began
        return None

    def _until(self, ends: float, lag: Lag, client: Pace) -> None:
        while clock.timer() < ends:
            client.continue_for(race.READ_EVERY)
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
            **race.judged(lag, client.rate, began, caught_up),
        }


def _fast_until_closed(array: Array) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(changed([array], FAST))
    return stack
