"""The commands that compare runs: with each other, and with a baseline that is kept in a file."""

import sys
from pathlib import Path

import click

from replication_lab import runs
from replication_lab.cli import names
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, percentage
from replication_lab.model.comparing.comparison import Comparison, compare
from replication_lab.model.comparing.digest import Digest, decode, encode
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.compared_figures import FIGURES
from replication_lab.report import compared
from replication_lab.world.files import write_for_user

MOST_MARGIN = 0.9
of_margin = click.option(
    "--margin",
    default="10%",
    show_default=True,
    metavar="PERCENT",
    help="How much worse a figure may be, in percent of its earlier value.",
)
of_figures = click.option(
    "--figure",
    "figures",
    multiple=True,
    type=click.Choice(list(FIGURES)),
    metavar="FIGURE",
    help="Figure that decides the exit status, such as latency_p99_ms; may be given several times.  [default: the "
    "figures by which the experiment compares a case, mostly throughput]",
)

of_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "html"]),
    default="text",
    show_default=True,
    help="markdown: tables for the job summary of a pipeline; html: a page like that of a report.",
)


@click.command("compare")
@click.argument("before", shell_complete=names.completed_by(names.runs))
@click.argument("after", shell_complete=names.completed_by(names.runs))
@of_margin
@of_figures
@of_format
@as_json
def compare_runs(before: str, after: str, margin: str, figures: tuple[str, ...], form: str, json_: bool) -> None:
    """Compare two runs of one experiment or question: each figure's ratio with its 95 % interval, and the verdicts.

    BEFORE and AFTER are folders, names under runs/, latest, or files of `lab baseline save`. Where the machines differ,
    only the ratios of claims are judged, since rates and latencies depend on the machine.

    Exit status 0: no figure is worse by more than the margin, 1: something is, 2: unknown.

    Example: lab compare 20261124-233146-semisync_wan latest --format html > changes.html
    """
    _end(_digest(before), _digest(after), margin, figures, form, json_)


@click.group()
def baseline() -> None:
    """Keep a run's figures in a small file, and check later runs against it.

    Example: lab baseline save baseline.json
    """


@baseline.command("save")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@as_json
def save(file: Path, run: str, json_: bool) -> None:
    """Write what is compared of a run to FILE, which can be committed.

    RUN is a folder, a name under runs/, or latest.

    Example: lab baseline save baseline.json
    """
    found = runs.digest_of(run)
    write_for_user(file, encode(found))
    if json_:
        print_json({"baseline": str(file), "run": found.run})
    else:
        tell(f"saved the figures of {found.run} in {file}")


@baseline.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
@of_margin
@of_figures
@of_format
@as_json
def check(file: Path, run: str, margin: str, figures: tuple[str, ...], form: str, json_: bool) -> None:
    """Compare a run with the baseline in FILE, as `lab compare` does.

    RUN is a folder, a name under runs/, or latest.

    Exit status 0: no figure is worse by more than the margin, 1: something is, 2: unknown.

    Example: lab baseline check baseline.json --margin 5%
    """
    _end(_read(file), _digest(run), margin, figures, form, json_)


def _digest(run: str) -> Digest:
    """Return the digest of a run or of a baseline's file."""
    return _read(Path(run)) if Path(run).is_file() and not run.endswith(".jsonl") else runs.digest_of(run)


def _read(file: Path) -> Digest:
    try:
        return decode(file.read_bytes(), str(file))
    except OSError as error:
        raise LabError(
            f"{file} cannot be read: {error.strerror}", "a baseline", f"./lab baseline save {file}"
        ) from error


def _end(before: Digest, after: Digest, margin: str, figures: tuple[str, ...], form: str, json_: bool) -> None:
    share = percentage(margin, "--margin")
    if not 0 < share <= MOST_MARGIN:
        raise LabError(f"--margin is {margin}", f"more than 0 % and at most {MOST_MARGIN:.0%}", "--margin 10%")
    found = compare(before, after, share, figures)
    if json_:
        print_json(_as_data(found))
    elif form == "markdown":
        click.echo(compared.markdown_text(found, share), nl=False)
    elif form == "html":
        click.echo(_page(found, share), nl=False)
    else:
        out.print(compared.rendered(found, share))
    sys.exit(found.exit_code)


def _page(found: Comparison, margin: float) -> str:
    from replication_lab.report import compared_page

    return compared_page.render(found, margin)


def _as_data(found: Comparison) -> dict[str, object]:
    return {
        "before": found.before.run,
        "after": found.after.run,
        "differs": found.differs,
        "stopped": found.stopped,
        "is_one_run": found.is_one_run,
        "changes": found.changes,
        "exit_code": found.exit_code,
    }
