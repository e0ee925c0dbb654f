"""The commands for experiments: run, judge, report."""

import os
import sys

import click

from replication_lab import experiments, runs
from replication_lab.cli import names
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json
from replication_lab.report import summary as summaries
from replication_lab.report import terminal
from replication_lab.report.rows import Summary


@click.command()
@click.argument("experiment", shell_complete=names.completed_by(experiments.names))
@click.option(
    "--engine",
    metavar="ENGINE[,ENGINE…]",
    help="In one record; or all that the experiment knows.  [default: mariadb, or those that it compares]",
)
@click.option("--full", is_flag=True, help="The published sizes instead of minutes.")
@click.option("--seed", default=7, show_default=True, help="Of the order of cases and of the rows.")
@as_json
def run(experiment: str, engine: str | None, full: bool, seed: int, json_: bool) -> None:
    """Run an experiment and judge its claims; exit status 0 as expected, 1 a verdict changed, 2 unknown.

    Example: lab run semisync_wan --engine mariadb,mysql-8.0
    """
    found = experiments.load(experiment)
    engines = runs.available(found) if engine == "all" else engine.split(",") if engine else []
    folder, summary = runs.run(found, engines, "full" if full else "quick", seed, tell)
    _print_summary(summary, json_)
    tell(f"record and report: {os.path.relpath(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


@click.command()
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@as_json
def judge(run: str, json_: bool) -> None:
    """Judge a run again from its record; needs no Docker. RUN is a folder, a name under runs/, or latest.

    Example: lab judge latest --json
    """
    summary = runs.judge(run)
    _print_summary(summary, json_)
    sys.exit(summary.exit_code)


@click.command()
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@as_json
def report(run: str, json_: bool) -> None:
    """Write summary.json, junit.xml and report.html of a run again from its record.

    Example: lab report latest
    """
    written = runs.report(run)
    print_json(written) if json_ else out.print("\n".join(written))


def _print_summary(summary: Summary, json_: bool) -> None:
    if json_:
        click.echo(summaries.encode(summary))
    else:
        terminal.show(summary)
