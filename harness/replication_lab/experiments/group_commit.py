"""Do clients that commit at the same time share the flushes of a durable binary log?"""

from replication_lab import Case, Inserts, Lab, Preset, experiment

ENGINES = ("mariadb", "mysql-5.5", "mysql-5.6", "mysql-8.0")


def workload(case: Case, preset: Preset) -> Inserts:
    """Return inserts of single rows by the clients of the case, for as long as the preset says."""
    return Inserts(case.state.clients, seconds=preset.sizes["seconds"])


def prepare(lab: Lab) -> None:
    """Give the server one half of the CPUs and its clients the other; create the table and the script."""
    lab.pin_cpus(("server",), ("load",))
    Inserts().prepare(lab)


experiment(topology="single", engines=ENGINES, default_engines=ENGINES, load=workload, prepare=prepare)
