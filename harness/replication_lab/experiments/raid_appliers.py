"""Do parallel appliers let a replica on RAID1 keep up with one on RAID0?"""

from replication_lab.experiments._declared import experiment
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Preset
from replication_lab.workloads import catch_up_setup
from replication_lab.workloads.catch_up import FLUSHING, Race
from replication_lab.workloads.row_updates import RowChanges
from replication_lab.world.docker.lab import Lab

ONE, MANY = ("lab",), ("lab_1", "lab_2", "lab_3", "lab_4")
FOUR_APPLIERS = {
    "optimistic": {"slave_parallel_threads": 4, "slave_parallel_mode": "optimistic"},
    "per_database": {
        "replica_preserve_commit_order": "OFF",
        "replica_parallel_type": "DATABASE",
        "replica_parallel_workers": 4,
    },
    "logical_clock": {
        "replica_parallel_type": "LOGICAL_CLOCK",
        "replica_parallel_workers": 4,
        "replica_preserve_commit_order": "ON",
    },
}
SAID = {
    "one": "one applier",
    "optimistic": "four optimistic appliers",
    "per_database": "four appliers of type DATABASE",
    "logical_clock": "four appliers of type LOGICAL_CLOCK",
}

# --- cases ------------------------------------------------------------------------------------------------------------


def _case(mode: str, databases: tuple[str, ...] = ONE, flushing: str = "relaxed") -> Case:
    name = "-".join([mode.replace("_", "-"), *(["many"] if databases == MANY else []), *_unless(flushing, "relaxed")])
    where = "one database" if databases == ONE else f"{len(databases)} databases"
    settings = {"appliers": FOUR_APPLIERS.get(mode), "databases": databases, "flushing": flushing}
    needs = frozenset({"gtid"} if mode == "one" else {"gtid", mode})
    return Case(name, f"{SAID[mode]}, {where}, {flushing} flushing", settings, needs)


def _unless(word: str, usual: str) -> list[str]:
    return [] if word == usual else [word]


CASES = (
    _case("one"),
    _case("one", MANY),
    _case("one", flushing="durable"),
    *(_case(mode, databases, flushing) for mode in FOUR_APPLIERS for databases in (ONE, MANY) for flushing in FLUSHING),
)


def workload(case: Case, preset: Preset) -> Race:
    """Return a race in which all replicas catch up at the same time."""
    sizes, relaxed = preset.sizes, case.settings["flushing"] == "relaxed"
    return Race(
        RowChanges(rows=sizes["rows"], databases=case.settings["databases"]),
        backlog=sizes["backlog" if relaxed else "durable_backlog"],
        warm=sizes["warm"] if relaxed else 1,
        window=sizes["window" if relaxed else "durable_window"],
        flushing=case.settings["flushing"],
    )


def fill(lab: Lab, preset: Preset) -> None:
    """Create the tables of one database, and of many if a case of the preset needs them, the same on each server."""
    sets = dict.fromkeys(case.settings["databases"] for case in CASES if preset.measures(case.name))
    catch_up_setup.fill(lab, *(RowChanges(rows=preset.sizes["rows"], databases=databases) for databases in sets))


experiment(
    topology="raid",
    cases=CASES,
    compared=tuple(f"{array}_rows_per_second" for array in ("single", "raid0", "raid1")),
    engines=("mariadb", "mysql-8.0"),
    load=workload,
    prepare=catch_up_setup.prepare,
    fill=fill,
    arrange=catch_up_setup.behind,
    predict=catch_up_setup.predict,
)
