"""Does a replica on RAID0 catch up with its source where one on RAID1 does not?"""

from replication_lab.experiments._declared import experiment
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.quantities import Figure, Total
from replication_lab.workloads import catch_up_setup
from replication_lab.workloads.catch_up import Race
from replication_lab.workloads.row_updates import RowChanges
from replication_lab.world.docker.lab import Lab

CASES = (Case("one", "one applier, one database, relaxed flushing", {}, frozenset({"gtid"})),)


def workload(_case: Case, preset: Preset) -> Race:
    """Return a race in which all replicas catch up at the same time; a steady load follows."""
    sizes = preset.sizes
    changes = RowChanges(rows=sizes["rows"], databases=("lab",))
    names = ("backlog", "warm", "window", "paced", "rest")
    return Race(changes, **{name: sizes[name] for name in names})


def fill(lab: Lab, preset: Preset) -> None:
    """Create the tables, the same on each server."""
    catch_up_setup.fill(lab, RowChanges(rows=preset.sizes["rows"], databases=("lab",)))


# --- claims -----------------------------------------------------------------------------------------------------------


def _claims() -> tuple[Claim, ...]:
    return (*_claims_on_catching_up(), *_claims_on_a_steady_load())


def _claims_on_catching_up() -> tuple[Claim, ...]:
    return (
        Claim(
            "raid0-writes-more",
            "while both catch up with one applier, RAID0 does at least 1.2 times the writes/s of RAID1",
            Figure("one", "raid0_writes_per_second") / Figure("one", "raid1_writes_per_second") >= 1.2,
            predicted=2.0,
        ),
        Claim(
            "raid0-applies-more",
            "with one applier, RAID0 applies at least 1.1 times the rows/s of RAID1",
            Figure("one", "raid0_rows_per_second") / Figure("one", "raid1_rows_per_second_throughout") >= 1.1,
            predicted=2.0,
        ),
        Claim(
            "raid1-applies-as-one-disk",
            "RAID1 of two disks applies as many rows/s as one disk (±20 %)",
            (
                Figure("one", "raid1_rows_per_second_throughout") / Figure("one", "single_rows_per_second_throughout")
            ).between(0.8, 1.25),
            predicted=1.0,
        ),
    )


def _claims_on_a_steady_load() -> tuple[Claim, ...]:
    return (
        Claim(
            "raid0-catches-up",
            "under a load of more rows/s than RAID1 applies and fewer than RAID0 applies, RAID0 catches up with the "
            "source and stays in sync, in each of at least 3 loads",
            Total("one", "raid0_never_caught_up", quiet=True).is_zero(trials="raid0_loads_that_tell", at_least=3),
            predicted=0.0,
        ),
        Claim(
            "raid1-lag-grows",
            "under the same load, the lag of RAID1 grows",
            Figure("one", "raid1_lag_slope") >= 0,
        ),
        Claim(
            "raid1-never-catches-up",
            "under the same load, RAID1 never catches up, in at least 3 loads",
            Total("one", "raid1_kept_up", quiet=True).is_zero(trials="raid1_loads_that_tell", at_least=3),
            predicted=0.0,
        ),
        # How much less depends on the load, which lies nearer to what RAID0 applies than the published one did.
        Claim(
            "caught-up-writes-less",
            "once RAID0 has caught up, it does fewer writes/s than before",
            Figure("one", "raid0_writes_per_second_after") / Figure("one", "raid0_writes_per_second") <= 1,
        ),
        Claim(
            "caught-up-disks-rest",
            "once RAID0 has caught up, its disks are busy for less of the time than before",
            Figure("one", "raid0_busy_after") / Figure("one", "raid0_busy") <= 1,
        ),
    )


SHORT = "the slope of the lag varies too much between loads of 16 s for a few of them to decide"
NO_STEADY_LOAD = "this preset has no steady load"
# Rows of a table, of the backlog and of the warm-up; seconds of the measurement. MariaDB's applier pauses for up to 2 s
# on these disks: a window of 5 s is too short for that (PAUSE_SHARE).
LEAST = {"rows": 8000, "warm": 4500, "backlog": 10_500, "window": 8, "paced": 0, "rest": 0}
BRIEF = {"rows": 8000, "warm": 4500, "backlog": 10_500, "window": 8, "paced": 16, "rest": 6}
SMALL = {"rows": 8000, "warm": 4500, "backlog": 14_000, "window": 12, "paced": 16, "rest": 10}
LONG = {"rows": 8000, "warm": 4500, "backlog": 60_000, "window": 60, "paced": 120, "rest": 60}
# MySQL's applier waits up to 7 s while its redo log of 8 MiB is full, then applies 2000 rows at once. In a window of
# 12 s that was too long a pause, and a replica on RAID0 had used up 14 000 rows before the window's end. A load of 16 s
# can work off 1600 rows, so that one burst could use up what was left of the backlog.
LONGER = {"backlog": 25_000, "window": 26}
ON_MYSQL = {"mysql": {**LONGER, "paced": 30}}

experiment(
    topology="raid",
    cases=CASES,
    compared=tuple(f"{array}_rows_per_second" for array in ("single", "raid0", "raid1")),
    claims=_claims(),
    presets=(
        Preset(
            "least",
            sizes=LEAST,
            own_sizes={"mysql": LONGER},
            undecidable={claim.id: NO_STEADY_LOAD for claim in _claims_on_a_steady_load()},
        ),
        Preset(
            "brief",
            sizes=BRIEF,
            own_sizes=ON_MYSQL,
            undecidable={"raid1-lag-grows": SHORT},
        ),
        Preset("quick", max_rounds=6, sizes=SMALL, own_sizes=ON_MYSQL),
        Preset("full", max_rounds=12, sizes=LONG),
    ),
    engines=("mariadb", "mysql-8.0"),
    load=workload,
    prepare=catch_up_setup.prepare,
    fill=fill,
    arrange=catch_up_setup.behind,
    predict=catch_up_setup.predict,
)
