"""Does a replica on RAID0 catch up with its source where one on RAID1 does not?"""

from replication_lab import Case, Lab, Preset, experiment
from replication_lab.workloads import catch_up_setup
from replication_lab.workloads.catch_up import Race
from replication_lab.workloads.row_updates import RowChanges


def workload(_case: Case, preset: Preset) -> Race:
    """Return a race in which all replicas catch up at the same time; a steady load follows."""
    sizes = preset.sizes
    changes = RowChanges(rows=sizes["rows"], databases=("lab",))
    names = ("backlog", "warm", "window", "paced", "rest")
    return Race(changes, **{name: sizes[name] for name in names})


def fill(lab: Lab, preset: Preset) -> None:
    """Create the tables, the same on each server."""
    catch_up_setup.fill(lab, RowChanges(rows=preset.sizes["rows"], databases=("lab",)))


experiment(load=workload, fill=fill, **catch_up_setup.RACE)
