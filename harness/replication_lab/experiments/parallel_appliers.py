"""Do parallel appliers let a durable replica apply faster, also what a single client of its source wrote?"""

from replication_lab import Case, Preset, experiment
from replication_lab.workloads.replicated_inserts import AppliedInserts


def workload(case: Case, preset: Preset) -> AppliedInserts:
    """Return inserts by the clients of the case, as many as its preset says."""
    return AppliedInserts(case.state.clients, preset.sizes["rows"])


experiment(
    topology="async",
    compared=("applied_rows_per_second",),
    engines=("mariadb", "mysql-8.0", "mysql"),
    default_engines=("mariadb", "mysql-8.0"),
    load=workload,
    prepare=AppliedInserts().prepare,
)
