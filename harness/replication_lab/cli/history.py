"""The command that shows runs over time."""

from pathlib import Path

import click

from replication_lab import runs
from replication_lab.cli import command
from replication_lab.cli.console import out, print_json
from replication_lab.cli.options import as_json
from replication_lab.model.comparing import over_time as model
from replication_lab.model.comparing.digest import Digest, decode
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.report import over_time


@command("history")
@click.argument("claim", required=False)
@click.option("--experiment", metavar="NAME")
@click.option("--engine", metavar="NAME")
@click.option("--saved", type=click.Path(file_okay=False, exists=True, path_type=Path), metavar="FOLDER")
@as_json
def history(claim: str | None, experiment: str | None, engine: str | None, saved: Path | None, json_: bool) -> None:
    kept = {(found.run, found.started): found for found in [*_of_files(saved), *runs.digests()]}
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
        print_json([_as_data(series) for series in found])
    elif claim is not None:
        for series in found:
            out.print(over_time.run_by_run(series))
    else:
        out.print(over_time.overview(found))


def _of_files(folder: Path | None) -> list[Digest]:
    return [decode(file.read_bytes(), str(file)) for file in sorted(folder.glob("*.json"))] if folder else []


def _as_data(series: model.Series) -> dict[str, object]:
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
