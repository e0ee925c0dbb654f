"""Every drill of every topology, one topology after another, each with a record of its own: `make drills`.

Exit status 0: as expected, 1: a verdict is unexpected, 3: unknown.
"""

import sys

import click
from replication_lab import cli, runs
from replication_lab.cli.console import tell
from replication_lab.model.core.verdict import worst
from replication_lab.model.drill.drill import Drill
from replication_lab.report import DrillsSummary, wording
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, folders

SEED = 7


@click.command()
def every() -> None:
    sys.exit(worst([_do(topology, drills).exit_code for topology in drill_set.known() for drills in _sets(topology)]))


def _sets(topology: str) -> list[list[Drill]]:
    """Return the drills of a topology that start with any engine, and each that names one."""
    return [drill_set.chosen(topology, None, None), *([each] for each in drill_set.known()[topology] if each.engine)]


def _do(topology: str, drills: list[Drill]) -> DrillsSummary:
    folder, summary = runs.drill(topology, catalogue.default_engine(topology), drills, SEED, tell)
    # The run is recorded. The drills of other topologies must not follow.
    runs.raise_interruption(summary)
    tell(f"{topology}: {wording.overall(summary)}; record: {folders.from_here(folder)}")
    return summary


if __name__ == "__main__":
    cli.main(every, "python -m tests.all_drills")
