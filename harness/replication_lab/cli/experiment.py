"""The command for experiments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from replication_lab import experiments, runs
from replication_lab.cli import command, names, options
from replication_lab.cli.console import tell
from replication_lab.cli.files import settings_of
from replication_lab.cli.record import finish
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.server_name import server_text
from replication_lab.model.question.question import NAME
from replication_lab.model.question.setting import CNF, DISK, STORAGE
from replication_lab.model.record.chosen import GIT, Against, Only
from replication_lab.world import given_texts

DECIDED_BY_A_FILE = (
    *("engine", "image", "preset", "rounds", "cases", "claims", "settings", CNF, STORAGE, DISK, "rtt", "against"),
    "margin",
)


@command("run")
@click.argument("experiment", shell_complete=names.completed_by(experiments.names))
@click.option("--engine", metavar="ENGINE[,ENGINE…]")
@click.option("--image", multiple=True, metavar="IMAGE")
@click.option("--preset", default="quick", show_default=True, metavar="NAME", shell_complete=names.presets)
@options.of_runs(None, "rounds")
@click.option("--case", "cases", multiple=True, metavar="NAME", shell_complete=names.cases)
@click.option("--claim", "claims", multiple=True, metavar="NAME", shell_complete=names.claims)
@click.option("--against", metavar="ENGINE|FILE.cnf|git:REVISION", shell_complete=names.engines)
@click.option("--margin", default="10%", show_default=True, metavar="PERCENT")
@click.option("--set", "settings", multiple=True, metavar="[NODE.]VARIABLE=VALUE")
@options.of_cnf
@options.of_node_storage
@click.option("--rtt", metavar="MS", default="")
@click.option("--seed", default=7, show_default=True)
@options.on_noise
@options.clients_from
@click.option("--sites", default=options.HERE, show_default=True, metavar="ENGINE[,ENGINE…]")
@options.keep_failed
@options.as_json
def run(
    *,
    experiment: str,
    engine: str | None,
    image: tuple[str, ...],
    seed: int,
    noise: str,
    keep: bool,
    sites: str,
    json_: bool,
    **others: Any,
) -> None:
    cases, claims = ([*dict.fromkeys(others[each])] for each in ("cases", "claims"))
    only = Only(rounds=others["rounds"], cases=cases, claims=claims)
    cnf: dict[str, GivenFile] = {}
    settings = settings_of(others, cnf)
    against = _against(others["against"], others["margin"])
    if question := experiments.question_file(experiment):
        _refuse_for_a_question()
        found, preset = experiments.from_file(question), NAME
    else:
        _refuse_a_margin_alone(experiment, against)
        found, preset = experiments.load(experiment, others["rtt"]), others["preset"]
        found = experiments.chosen(found, preset, settings, only, against, list(cnf.values()))
    engines = runs.available(found) if engine == "all" and not image else _servers(engine, image)
    if against:
        _refuse_the_same(against.server, engines or found.default_engines)
    request = RunRequest(found, engines, preset, seed, noise, keep, options.endpoints_of(sites))
    finish(*runs.run(request, tell), json_)


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
    if not against and options.is_given("margin"):
        margin = click.get_current_context().params["margin"]
        raise LabError(
            f"--margin {margin} without --against",
            "a server to compare with",
            f"./lab run {experiment} --against mariadb-10.11 --margin {margin}",
        )


def _against(against: str | None, margin: str) -> Against | None:
    """Return what to compare with, whose commit may be any revision."""
    if not against:
        return None
    share = options.percentage(margin)
    if against.endswith(".cnf"):
        return Against(cnf=given_texts.read_for_a_record(Path(against)), margin=share)
    if against.startswith(GIT):
        return Against(commit=against.removeprefix(GIT), margin=share)
    return Against(server=against, margin=share)


def _refuse_for_a_question() -> None:
    for parameter in click.get_current_context().command.params:
        if parameter.name in DECIDED_BY_A_FILE and options.is_given(parameter.name):
            raise LabError(
                f"{parameter.opts[0]} cannot be used with the file of a question",
                "only the file, which gives the engine, the settings, the cases, the claims and the sizes",
                "edit the file",
            )
