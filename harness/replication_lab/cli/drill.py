"""The command for drills; and `make drills`, which runs this module."""

import os
import sys
from pathlib import Path

import click

from replication_lab.cli import main, names
from replication_lab.cli.console import print_json, tell
from replication_lab.cli.options import as_json
from replication_lab.model.verdict import exit_code
from replication_lab.report import drill_page, drill_text
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

PAGE = catalogue.ROOT / "docs" / "faults.md"
ENGINE, SEED = "mariadb", 7


@click.command()
@click.argument("topology", required=False, shell_complete=names.completed_by(catalogue.topologies))
@click.option("--fault", metavar="NAME", shell_complete=names.completed_by(names.drills), help="Only this drill.")
@click.option("--seconds", type=float, help="How long the fault lasts, in place of what the drill's file says.")
@click.option("--seed", default=SEED, show_default=True, help="Of the moment in which the fault strikes.")
@click.option("--engine", default=ENGINE, show_default=True)
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
    sys.exit(exit_code(one for result in results for one in result.judgements))


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]…")
def write_page(runs: tuple[str, ...]) -> None:
    """Do every drill of every topology, and write docs/faults.md; or only the tables of recorded RUNs again.

    Exit status 0 as expected, 1 a verdict differs, 2 unknown.
    """
    known = drill_set.known()
    folders = runs or [_do_all(topology) for topology in known]
    judged = [(drill_set.opened(folder), drill_set.judge(folder)) for folder in folders]
    PAGE.write_text(drill_page.page(judged, list(known), PAGE.read_text() if runs else ""))
    tell(f"written: {PAGE.relative_to(catalogue.ROOT)}")
    sys.exit(exit_code(one for _, results in judged for result in results for one in result.judgements))


def _do_all(topology: str) -> Path:
    folder, _ = drill_set.run(topology, ENGINE, drill_set.chosen(topology, None, None), SEED, tell)
    return folder


if __name__ == "__main__":
    main(write_page, "python -m replication_lab.cli.drill")
