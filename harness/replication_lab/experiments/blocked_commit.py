"""Is a semi-synchronous commit answered once the replica is back, if the link lost its acknowledgement?"""

from replication_lab import Case, Preset, experiment
from replication_lab.workloads.blocked_commit import ACKNOWLEDGEMENT, ROW, BlockedCommits

POINTS = ("AFTER_SYNC", "AFTER_COMMIT")


def workload(case: Case, preset: Preset) -> BlockedCommits:
    """Return inserts whose row or acknowledgement is lost on the link, as the name of the case says."""
    return BlockedCommits(ROW if case.name.startswith(ROW) else ACKNOWLEDGEMENT, **preset.sizes)


experiment(
    topology="semisync",
    compared=("reconnected_ms",),
    engines=("mariadb", "mysql-5.6", "mysql-8.0", "mysql"),
    cases=[
        Case(
            f"{lost}-lost-{point.lower().replace('_', '-')}",
            f"the link loses the {lost}, the source waits at {point}",
            {"replication": "semisync", "wait_point": point},
        )
        for lost in (ROW, ACKNOWLEDGEMENT)
        for point in POINTS
    ],
    load=workload,
    prepare=BlockedCommits(ROW).prepare,
)
