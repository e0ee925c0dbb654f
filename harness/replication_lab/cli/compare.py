"""The commands that compare runs with each other or with kept baselines, and show them over time: compare, history."""

import sys
from pathlib import Path

import click

from replication_lab import runs
from replication_lab.cli import command, names
from replication_lab.cli.console import out, print_json
from replication_lab.cli.options import as_json, percentage
from replication_lab.model.comparing import over_time as model
from replication_lab.model.comparing.comparison import Comparison, compare
from replication_lab.model.comparing.digest import Digest, decode
from replication_lab.model.core.errors import LabError, as_lab_error, unknown_name
from replication_lab.model.core.event import RECORD
from replication_lab.model.experiment.compared_figures import FIGURES
from replication_lab.report import compared, over_time

MOST_MARGIN = 0.9


@command("compare")
@click.argument("before", shell_complete=names.runs)
@click.argument("after", default="latest", shell_complete=names.runs)
@click.option("--margin", default="10%", show_default=True, metavar="PERCENT")
@click.option("--figure", "figures", multiple=True, type=click.Choice(list(FIGURES)), metavar="FIGURE")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "html"]), default="text", show_default=True)
@as_json
def compare_runs(before: str, after: str, margin: str, figures: tuple[str, ...], form: str, json_: bool) -> None:
    share = percentage(margin)
    if not 0 < share <= MOST_MARGIN:
        raise LabError(f"--margin is {margin}", f"more than 0 % and at most {MOST_MARGIN:.0%}", "--margin 10%")
    found = compare(_digests(before), _digests(after), share, figures)
    if json_:
        print_json(_as_data(found))
    elif form == "markdown":
        click.echo(compared.markdown_text(found, share), nl=False)
    elif form == "html":
        click.echo(compared.page_text(found, share), nl=False)
    else:
        out.print(compared.rendered(found, share))
    sys.exit(found.exit_code)


def _digests(run: str) -> list[Digest]:
    """Return the digests of a run, of a baseline's file, or of all baselines in a folder."""
    folder = Path(run)
    if not folder.is_dir() or (folder / RECORD).exists() or not (files := sorted(folder.glob("*.json"))):
        return [_digest(run)]
    return [_digest(str(file)) for file in files]


def _digest(run: str) -> Digest:
    if not run.endswith(".json") and (run.endswith(".jsonl") or not Path(run).is_file()):
        return runs.digest_of(run)
    with as_lab_error(OSError, f"{run} cannot be read", "a baseline", f"./lab report --format baseline > {run}"):
        return decode(Path(run).read_bytes(), run)


def _as_data(found: Comparison) -> dict[str, object]:
    return {
        "before": found.before.run,
        "after": found.after.run,
        "runs": [[run.run for run in side.runs] for side in (found.earlier, found.later)],
        "differs": found.differs,
        "stopped": found.stopped,
        "is_one_run": found.is_one_run,
        "changes": found.changes,
        "exit_code": found.exit_code,
    }


@command("history")
@click.argument("claim", required=False)
@click.option("--experiment", metavar="NAME")
@click.option("--engine", metavar="NAME")
@click.option("--saved", type=click.Path(file_okay=False, exists=True, path_type=Path), metavar="FOLDER")
@as_json
def history(claim: str | None, experiment: str | None, engine: str | None, saved: Path | None, json_: bool) -> None:
    files = sorted(saved.glob("*.json")) if saved else []
    of_files = [decode(file.read_bytes(), str(file)) for file in files]
    kept = {(found.run, found.started): found for found in [*of_files, *runs.digests()]}
    found = [
        series
        for series in model.history(kept.values())
        if experiment in (None, series.place.experiment) and engine in (None, series.place.engine)
    ]
    if not found:
        raise LabError(
            "no recorded run matches the options",
            "a recorded run of an experiment under runs/, or files of `lab report --format baseline` and --saved",
            "./lab list runs",
        )
    if claim is not None:
        chosen = [series for series in found if series.of == claim]
        if not chosen:
            raise unknown_name("claim or figure", claim, dict.fromkeys(series.of for series in found), "./lab history")
        found = chosen
    if json_:
        print_json([_series_data(series) for series in found])
    elif claim is not None:
        for series in found:
            out.print(over_time.run_by_run(series))
    else:
        out.print(over_time.overview(found))


def _series_data(series: model.Series) -> dict[str, object]:
    place = series.place
    return {
        "experiment": place.experiment,
        "preset": place.preset,
        "conditions": dict(place.conditions),
        "engine": place.engine,
        "against": place.against,
        "machine": dict(place.machine),
        "of": series.of,
        "points": series.points,
        "changes": [
            {
                "run": series.points[each.at].run,
                "ratio": each.ratio,
                "cpu_time": each.cpu_time,
                "is_of_the_cpus": each.is_of_the_cpus,
            }
            for each in series.changes
        ],
    }
