"""The command for experiments."""

import os
import sys
from collections.abc import Callable

import click

from replication_lab import experiments, runs
from replication_lab.cli import names
from replication_lab.cli.console import tell
from replication_lab.cli.options import as_json, keep_failed, of_image, server_of
from replication_lab.cli.record import print_summary
from replication_lab.model.errors import LabError
from replication_lab.model.question import NAME


@click.command()
@click.argument("experiment", shell_complete=names.completed_by(experiments.names))
@click.option(
    "--engine",
    metavar="ENGINE[,ENGINE…]",
    help="Engines to measure, recorded together; `all` for every engine that the experiment supports.  "
    "[default: mariadb, or the engines that the experiment compares]",
)
@of_image
@click.option(
    "--full",
    is_flag=True,
    help="Use the sizes of the publication, which takes hours.  [default: smaller sizes, which take minutes]",
)
@click.option(
    "--rtt",
    metavar="MS",
    default="",
    help="Round trip of the WAN in place of the published one, such as 40ms. Then only laws are judged, and nothing is "
    "compared with published figures.",
)
@click.option("--seed", default=7, show_default=True, help="Seed for the order of the cases and for the rows.")
@keep_failed
@as_json
def run(
    *, experiment: str, engine: str | None, image: str | None, full: bool, rtt: str, seed: int, keep: bool, json_: bool
) -> None:
    """Run an experiment and judge its claims. `lab list experiments` shows the choices.

    EXPERIMENT is a name, or a question's YAML file that `lab ask --save` wrote.

    Exit status 0: as expected, 1: a verdict is unexpected, 2: unknown.

    Example: lab run semisync_wan --engine mariadb,mysql-8.0

    Example: lab run semisync_wan --rtt 40ms
    """
    if experiment.endswith((".yaml", ".yml")):
        _refuse_for_a_question(engine, image, full, rtt)
        found, preset = experiments.from_file(experiment), NAME
    else:
        found, preset = experiments.load(experiment, rtt), "full" if full else "quick"
    engines = _servers(engine, image, lambda: runs.available(found))
    folder, summary = runs.run(found, engines, preset, seed, tell, keep=keep)
    print_summary(summary, json_)
    tell(f"record and report: {os.path.relpath(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


def _servers(engine: str | None, image: str | None, available: Callable[[], list[str]]) -> list[str]:
    """Return the servers to measure; empty for the experiment's own."""
    if image:
        if engine and ("," in engine or engine == "all"):
            raise LabError(
                f"--image with --engine {engine}", "one engine, the one that the image is", f"--image {image}"
            )
        return [server_of(engine, image, "")]
    return available() if engine == "all" else engine.split(",") if engine else []


def _refuse_for_a_question(engine: str | None, image: str | None, full: bool, rtt: str) -> None:
    for option, given in (("--engine", engine), ("--image", image), ("--full", full), ("--rtt", rtt)):
        if given:
            raise LabError(
                f"{option} was given for a question's file",
                "no such option: the file gives the engine, the round trip and the sizes",
                "edit the file",
            )
