"""Do parallel appliers let a replica on RAID1 keep up with one on RAID0?"""

from replication_lab import Case, Lab, Preset, experiment
from replication_lab.workloads import catch_up_setup
from replication_lab.workloads.catch_up import Race
from replication_lab.workloads.row_updates import RowChanges


def workload(case: Case, preset: Preset) -> Race:
    """Return a race in which all replicas catch up at the same time."""
    sizes, relaxed = preset.sizes, case.settings["flushing"] == "relaxed"
    return Race(
        RowChanges(rows=sizes["rows"], databases=tuple(case.settings["databases"])),
        backlog=sizes["backlog" if relaxed else "durable_backlog"],
        warm=sizes["warm"] if relaxed else 1,
        window=sizes["window" if relaxed else "durable_window"],
        flushing=case.settings["flushing"],
    )


def fill(lab: Lab, preset: Preset) -> None:
    """Create the tables of one database, and of many if a case of the preset needs them, the same on each server."""
    sets = dict.fromkeys(tuple(case.settings["databases"]) for case in appliers.chosen(preset))
    catch_up_setup.fill(lab, *(RowChanges(rows=preset.sizes["rows"], databases=databases) for databases in sets))


appliers = experiment(load=workload, fill=fill, **catch_up_setup.RACE)
