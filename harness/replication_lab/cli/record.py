"""The commands for what was recorded, of an experiment or of drills: judge, report, open."""

import sys

import click

from replication_lab import runs
from replication_lab.cli import names
from replication_lab.cli.console import has_desktop, out, print_json, tell
from replication_lab.cli.options import as_json
from replication_lab.model.core.errors import LabError
from replication_lab.report import DrillsSummary, Summary, drill_text, terminal
from replication_lab.report import summary as summaries
from replication_lab.report.formats import FORMATS
from replication_lab.world.journal import LATEST


@click.command()
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@as_json
def judge(run: str, json_: bool) -> None:
    """Compute the verdicts of a recorded run again, without Docker.

    RUN is a folder, a name under runs/, or latest.

    Example: lab judge latest --json
    """
    _remark(run)
    summary = runs.judge(run)
    print_summary(summary, json_)
    sys.exit(summary.exit_code)


@click.command()
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the report in this format and write no file. markdown: tables for a job summary; github: an error for "
    "each unexpected verdict and a warning for each unknown one, as GitHub Actions reads them; csv: a line for each "
    "figure of each quiet round; benchmark: JSON for benchmark actions, an entry for each throughput.",
)
@as_json
def report(run: str, form: str | None, json_: bool) -> None:
    """Write the report of a recorded run again, or print it in another format.

    Without --format it writes summary.json, junit.xml and report.html. RUN is a folder, a name under runs/, or latest.

    Example: lab report latest --format markdown
    """
    if form and json_:
        raise LabError("--json with --format", "one of the two", f"./lab report {run} --format {form}")
    _remark(run)
    if form:
        click.echo(runs.rendered(run, form), nl=False)
        return
    written = runs.report(run)
    print_json(written) if json_ else out.print("\n".join(written))


@click.command("open")
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@click.option("--index", is_flag=True, help="Open runs/index.html instead, the page of all runs.")
@as_json
def open_report(run: str, index: bool, json_: bool) -> None:
    """Print the path of a run's report.html, and open it if there is a desktop.

    RUN is a folder, a name under runs/, or latest. Into a pipe or a file the path is only printed.

    Example: lab open latest
    """
    if not index:
        _remark(run)
    page = str(runs.write_index() if index else runs.report_page(run))
    print_json({"report": page}) if json_ else click.echo(page)
    if has_desktop() and not json_:
        click.launch(page)


def _remark(run: str) -> None:
    """Tell the user if the latest run has no results: they may expect those of the run before it."""
    if run == LATEST and (remark := runs.remark_on_latest()):
        tell(remark)


def print_summary(summary: Summary, json_: bool) -> None:
    """Print a run's summary, for people or as data."""
    if json_:
        click.echo(summaries.encode(summary).decode())
    elif isinstance(summary, DrillsSummary):
        click.echo(drill_text.text(summary))
    else:
        out.print(terminal.render(summary), width=None if out.is_terminal else terminal.pipe_width(summary))
