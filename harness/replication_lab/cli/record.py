"""The command for what was recorded, of an experiment or of drills: report."""

import sys
from pathlib import Path
from typing import NoReturn

import click

from replication_lab import runs
from replication_lab.cli import command
from replication_lab.cli.console import has_desktop, out, print_json, tell
from replication_lab.cli.options import as_json, one_run
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.report import DrillsSummary, Summary, drill_text, terminal
from replication_lab.report import summary as summaries
from replication_lab.report.formats import FORMATS
from replication_lab.world import folders
from replication_lab.world.journal import LATEST

TEXT = "text"


@command("report")
@one_run
@click.option("--format", "form", type=click.Choice((TEXT, *FORMATS)))
@click.option("--open", "open_", is_flag=True)
@click.option("--index", is_flag=True)
@as_json
def report(*, run: str, form: str | None, open_: bool, index: bool, json_: bool) -> None:
    if form and (json_ or open_ or index):
        raise LabError("--format with --json, --open or --index", "one of them", f"./lab report {run} --format {form}")
    # If the latest run has no results, the user may expect those of the run before it.
    if run == LATEST and not index and (remark := runs.remark_on_latest()):
        tell(remark)
    if open_ or index:
        page = runs.write_index() if index else runs.report_page(run)
        print_json({"report": str(page)}) if json_ else click.echo(page)
        # Into a pipe or a file the path is only printed.
        if has_desktop() and not json_:
            click.launch(str(page))
    elif form and form != TEXT:
        click.echo(runs.rendered(run, form), nl=False)
    else:
        summary, written = (runs.judge(run), []) if form or json_ else runs.report(run)
        if summary:
            print_summary(summary, json_)
        if written:
            tell("\n".join(f"written: {path}" for path in written))
        sys.exit(summary.exit_code if summary else ExitCode.GOOD)


def finish(folder: Path, summary: Summary, json_: bool) -> NoReturn:
    """Print the summary of an experiment's run and where its files are; exit with its status."""
    print_summary(summary, json_)
    tell(f"record and report: {folders.from_here(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


def print_summary(summary: Summary, json_: bool) -> None:
    """Print a run's summary, for people or as data."""
    if json_:
        click.echo(summaries.encode(summary).decode())
    elif isinstance(summary, DrillsSummary):
        click.echo(drill_text.text(summary))
    else:
        out.print(terminal.render(summary), width=None if out.is_terminal else terminal.pipe_width(summary))
