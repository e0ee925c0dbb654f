"""The command for experiments."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from replication_lab import experiments, runs
from replication_lab.cli import names
from replication_lab.cli.console import tell
from replication_lab.cli.files import settings_of
from replication_lab.cli.options import (
    as_json,
    keep_failed,
    of_cnf,
    of_node_disk,
    of_node_storage,
    on_noise,
    percentage,
)
from replication_lab.cli.record import print_summary
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.server_name import server_text
from replication_lab.model.question.question import NAME
from replication_lab.model.question.setting import CNF, DISK, STORAGE
from replication_lab.model.record.against import GIT, Against
from replication_lab.model.record.only import Only
from replication_lab.world import given_texts, places

DECIDED_BY_A_FILE = (
    *("engine", "image", "preset", "rounds", "cases", "claims", "settings", CNF, STORAGE, DISK, "rtt", "against"),
    "margin",
)


@click.command()
@click.argument("experiment", shell_complete=names.completed_by(experiments.names))
@click.option(
    "--engine",
    metavar="ENGINE[,ENGINE…]",
    help="Engines to measure, recorded together; `all` for every engine that the experiment supports.  "
    "[default: mariadb, or the engines that the experiment compares]",
)
@click.option(
    "--image",
    multiple=True,
    metavar="IMAGE",
    help="Docker image to measure in place of the engine's own, as in `lab up`; may be repeated: recorded together.",
)
@click.option(
    "--preset",
    default="quick",
    show_default=True,
    metavar="NAME",
    shell_complete=names.of_experiment(lambda found: found.presets),
    help="Size of the run: brief, quick, full, or another preset of the experiment. `full` has the sizes of the "
    "publication and takes hours; the others take minutes.",
)
@click.option("--rounds", type=int, metavar="NUMBER", help="Maximum number of rounds.  [default: the preset's]")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="NAME",
    shell_complete=names.of_experiment(lambda found: [case.name for case in found.cases]),
    help="Measure this case only; may be repeated. Claims that need other cases are not judged.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME",
    shell_complete=names.of_experiment(lambda found: [claim.id for claim in found.claims]),
    help="Judge this claim only, and measure only the cases that it needs; may be repeated.",
)
@click.option(
    "--against",
    metavar="ENGINE|FILE.cnf|git:REVISION",
    shell_complete=names.completed_by(names.engines),
    help="What to compare with in the same rounds. The reference is another server (an engine, a vendor's version or "
    "an image), or the topology's Compose file of another revision, such as git:main. With a my.cnf file, the servers "
    "that start with it are compared with the same servers without it. In each case, no compared figure (mostly the "
    "throughput) may be worse by more than --margin.",
)
@click.option(
    "--margin",
    default="10%",
    show_default=True,
    metavar="PERCENT",
    help="How much worse a figure may be in a comparison with --against, in percent.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[NODE.]VARIABLE=VALUE",
    help="Set a server variable in every case, on every server or on NODE; may be repeated. If --set, --cnf, --storage "
    "or --disk is given, the run judges only laws and compares nothing with published figures.",
)
@of_cnf
@of_node_storage
@of_node_disk
@click.option(
    "--rtt",
    metavar="MS",
    default="",
    help="Round trip of the WAN in place of the published one, such as 40ms. Then only laws are judged, and nothing is "
    "compared with published figures.",
)
@click.option("--seed", default=7, show_default=True, help="Seed for the order of the cases and for the rows.")
@on_noise
@keep_failed
@as_json
def run(
    *,
    experiment: str,
    engine: str | None,
    image: tuple[str, ...],
    seed: int,
    noise: str,
    keep: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Run an experiment and judge its claims. `lab list experiments` shows the choices.

    EXPERIMENT is a name, or a question's YAML file that `lab ask --save` wrote. Files in lab/experiments/ have the
    names of experiments.

    Exit status 0: as expected, 1: a verdict is unexpected, 2: unknown.

    Example: lab run semisync_wan --engine mariadb,mysql-8.0

    Example: lab run semisync_wan --rtt 40ms

    Example: lab run semisync_wan --claim async-costs-little --rounds 5
    """
    cases, claims = ([*dict.fromkeys(options[each])] for each in ("cases", "claims"))
    only = Only(rounds=options["rounds"], cases=cases, claims=claims)
    cnf: dict[str, GivenFile] = {}
    settings = settings_of(options, cnf)
    against = _against(options["against"], options["margin"])
    if question := experiments.question_file(experiment):
        _refuse_for_a_question()
        found, preset = experiments.from_file(question), NAME
    else:
        _refuse_a_margin_alone(experiment, against)
        found, preset = experiments.load(experiment, options["rtt"]), options["preset"]
        found = experiments.chosen(found, preset, settings, only, against, list(cnf.values()))
    engines = runs.available(found) if engine == "all" and not image else _servers(engine, image)
    if against:
        _refuse_the_same(against.server, engines or found.default_engines)
    folder, summary = runs.run(RunRequest(found, engines, preset, seed, noise, keep), tell)
    print_summary(summary, json_)
    tell(f"record and report: {places.from_here(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


def _refuse_the_same(against: str, engines: Sequence[str]) -> None:
    if against in engines:
        raise LabError(
            f"--against {against} compares {against} with itself",
            "two servers",
            "./lab run EXPERIMENT --engine mariadb --against mariadb-10.11",
        )


def _servers(engine: str | None, image: Sequence[str]) -> list[str]:
    """Return the servers to measure; empty for the experiment's own."""
    if image:
        if engine and ("," in engine or engine == "all"):
            raise LabError(f"--image with --engine {engine}", "one engine: that of the image", f"--image {image[0]}")
        return [server_text(engine or "", each) for each in image]
    return engine.split(",") if engine else []


def _refuse_a_margin_alone(experiment: str, against: Against | None) -> None:
    context = click.get_current_context()
    if not against and context.get_parameter_source("margin") is ParameterSource.COMMANDLINE:
        margin = context.params["margin"]
        raise LabError(
            f"--margin {margin} without --against",
            "a server to compare with",
            f"./lab run {experiment} --against mariadb-10.11 --margin {margin}",
        )


def _against(against: str | None, margin: str) -> Against | None:
    """Return what to compare with, whose commit may be any revision."""
    if not against:
        return None
    share = percentage(margin, "--margin")
    if against.endswith(".cnf"):
        return Against(cnf=given_texts.read_for_a_record(Path(against)), margin=share)
    if against.startswith(GIT):
        return Against(commit=against.removeprefix(GIT), margin=share)
    return Against(server=against, margin=share)


def _refuse_for_a_question() -> None:
    """Raise LabError for the options that a question's file decides."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if given and parameter.name in DECIDED_BY_A_FILE:
            raise LabError(
                f"{parameter.opts[0]} cannot be used with the file of a question",
                "only the file, which gives the engine, the settings, the cases, the claims and the sizes",
                "edit the file",
            )
