"""Does a replica on RAID0 catch up with its source where one on RAID1 does not?"""

from replication_lab.experiments._declared import experiment
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Preset
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


SHORT = "the slope of the lag varies too much between loads of 16 s for a few of them to decide"
NO_STEADY_LOAD = "this preset has no steady load"
OF_A_STEADY_LOAD = (
    *("raid0-catches-up", "raid1-lag-grows", "raid1-never-catches-up"),
    *("caught-up-writes-less", "caught-up-disks-rest"),
)
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
    presets=(
        Preset(
            "least",
            sizes=LEAST,
            own_sizes={"mysql": LONGER},
            undecidable=dict.fromkeys(OF_A_STEADY_LOAD, NO_STEADY_LOAD),
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
