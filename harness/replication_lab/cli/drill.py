"""The command for drills, and `make drills`."""

import os
import sys

import click

from replication_lab.cli import names
from replication_lab.cli.console import print_json, tell
from replication_lab.cli.options import as_json
from replication_lab.model.drill import exit_code
from replication_lab.report import drill_text
from replication_lab.runner import drill_set
from replication_lab.world import catalogue


@click.command()
@click.argument("topology", required=False, shell_complete=names.completed_by(catalogue.topologies))
@click.option("--fault", metavar="NAME", shell_complete=names.completed_by(names.drills), help="Only this drill.")
@click.option("--seconds", type=float, help="How long the fault lasts, in place of what the drill's file says.")
@click.option("--seed", default=7, show_default=True, help="Of the moment in which the fault strikes.")
@click.option("--engine", default="mariadb", show_default=True)
@click.option("--judge", "judged", metavar="RUN", help="Judge recorded drills again instead; needs no Docker.")
@as_json
def drill(
    topology: str | None,
    fault: str | None,
    seconds: float | None,
    seed: int,
    engine: str,
    judged: str | None,
    json_: bool,
) -> None:
    """Break a lab of its own under load, mend it, and say what clients saw and lost; without TOPOLOGY list the drills.

    Exit status 0 as expected, 1 a verdict differs, 2 unknown. RUN is a folder, a name under runs/, or latest.

    Example: lab drill galera --fault kill-node
    """
    if not topology and not judged:
        known = drill_set.known()
        print_json({name: {each.name: each.about for each in found} for name, found in known.items()}) if json_ else (
            click.echo(drill_text.listing(known))
        )
        return
    if judged:
        results = drill_set.judge(judged)
    else:
        drills = drill_set.chosen(topology, fault, seconds)
        folder, results = drill_set.run(topology, engine, drills, seed, tell)
        tell(f"record and ledgers: {os.path.relpath(folder)}")
    print_json(drill_set.as_data(results)) if json_ else click.echo(drill_text.text(results))
    sys.exit(exit_code(results))
