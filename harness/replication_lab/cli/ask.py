"""The commands for a user's own question, measured or predicted: ask, predict."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from replication_lab import experiments, runs
from replication_lab import predict as room
from replication_lab.cli import command, files, names, options
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.files import SETTING, pairs
from replication_lab.cli.record import finish
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.quantity import COUNT, DURATION, values_of
from replication_lab.model.experiment.claim import claims_of, is_about_lag
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.manager import MANAGER
from replication_lab.model.lab.server_name import lab_text, server_text
from replication_lab.model.lab.spread_load import LOAD_OPTION
from replication_lab.model.question.load import INSERTS
from replication_lab.model.question.question import NAME, Question
from replication_lab.model.question.setting import CLIENTS, ENGINE, Values
from replication_lab.report import predicted
from replication_lab.world import catalogue, given_texts
from replication_lab.world.files import write_for_user, writing

IMAGE = "image"
# What a saved question begins with, before the path of its schema.
FIRST_LINE = "# yaml-language-server: $schema="
# Each load has a seed of its own, a thousand times this at most, which sysbench reads as a number of 32 bits.
HIGHEST_SEED = 2_000_000

of_topologies = click.argument("arguments", nargs=-1, metavar="TOPOLOGY[,TOPOLOGY…]", shell_complete=names.topologies)


@command("ask")
@of_topologies
@click.option("--vary", "varied", multiple=True, metavar="NAME=VALUE,VALUE…")
@click.option("--case", "cases", multiple=True, metavar="NAME=VALUE,NAME=VALUE…")
@click.option("--set", "settings", multiple=True, metavar=SETTING)
@options.of_cnf
@click.option("--rtt", metavar="CONDITION")
@options.of_clients()
@click.option("--rate", metavar="RATE")
@options.of_node_storage
@options.of_companions
@click.option("--baseline", multiple=True, metavar=SETTING)
@click.option("--claim", "claims", multiple=True, metavar="CLAIM")
@click.option("--workload", metavar="NAME|FILE")
@click.option("--script-option", "script_options", multiple=True, metavar=SETTING)
@click.option("--load-command", metavar="CMD")
@click.option("--load-image", metavar="IMAGE")
@click.option("--schema", metavar="FILE")
@click.option("--init", metavar="FILE")
@options.of_servers
@options.of_duration("3s", 1, 3600)
@click.option("--margin", default="10%", show_default=True, metavar="PERCENT")
@options.of_runs(12, "rounds", 3, 100)
@click.option("--max-duration", "longest", type=options.Written(DURATION, 0, 24 * 3600), default="0", metavar="TIME")
@click.option("--drill", metavar="NAME")
@click.option("--drill-runs", type=options.Written(COUNT, 1, 50), metavar="NUMBER")
@click.option("--ledger", is_flag=True)
@click.option("--check", is_flag=True)
@click.option("--save", metavar="FILE")
@click.option("--seed", default=7, show_default=True)
@options.on_noise
@options.clients_from
@click.option("--load-sites", metavar="ENGINE,…")
@click.option("--load-address", metavar="ADDRESS")
@options.keep_failed
@options.as_json
def ask(
    *,
    arguments: tuple[str, ...],
    load_sites: str | None,
    load_address: str | None,
    save: str | None,
    seed: int,
    noise: str,
    keep: bool,
    json_: bool,
    **asked: Any,
) -> None:
    _refuse_bad_options(seed, {**asked, "save": save})
    question = _question(topologies_in(arguments).split(","), asked)
    experiment = experiments.asked(question)
    question.refuse_a_single_case()
    load = options.load_of(load_sites, load_address)
    if load:
        _refuse_unspread(question, len(load.endpoints))
    if save:
        _write(Path(save), question)
    finish(*runs.run(RunRequest(experiment, experiment.engines, NAME, seed, noise, keep, spread=load), tell), json_)


def _refuse_unspread(question: Question, containers: int) -> None:
    """Raise LabError for a load that runs in one place only, and for servers that clients reach in another way.

    Fewer clients than containers would leave some without: then a case would run in other places than the others.
    """
    fewest = min(int({**question.settings, **values}.get(CLIENTS, "1")) for values in question.combinations())
    if fewest < containers:
        raise LabError(
            f"{LOAD_OPTION} names {containers} engines for {fewest} client{'s' if fewest > 1 else ''}",
            "at least one client for each in every case",
            f"--clients {containers}",
        )
    alone = {
        "--load-command": question.load_command is not None,
        "--check": question.check,
        "a claim about the lag": any(map(is_about_lag, claims_of(question))),
        "--endpoint": any(ENDPOINT in each for each in (question.vary, question.settings)),
        "--manager": any(MANAGER in each for each in (question.vary, question.settings)),
    }
    if option := next((option for option, given in alone.items() if given), ""):
        raise LabError(f"{option} with {LOAD_OPTION}", "one of them", f"leave out {LOAD_OPTION}")


def topologies_in(given: tuple[str, ...]) -> str:
    """Return the text that names the topologies; LabError for none, or for several texts."""
    if not given:
        raise LabError("no topology is named", "at least one, such as semisync", "./lab list topologies")
    if len(given) > 1:
        raise LabError(
            f"topologies are named more than once: {' '.join(given)}",
            "topologies, and values of a setting, separated by commas without spaces",
            "./lab ask semisync,async --vary clients=1,16",
        )
    return given[0]


def _refuse_bad_options(seed: int, asked: Mapping[str, Any]) -> None:
    if not 0 <= seed <= HIGHEST_SEED:
        raise LabError(f"--seed is {seed}", f"a whole number from 0 to {HIGHEST_SEED}", "--seed 7")
    for name, value in asked.items():
        if value == "":
            option = f"--{name.replace('_', '-')}"
            raise LabError(f"{option} has an empty value", "a value", f"leave out {option}")


def _cases(given: Sequence[str], vary: Mapping[str, list[str]], cnf: dict[str, GivenFile]) -> list[Values]:
    """Return the combinations that --case names. Raise LabError for a setting that --vary names, too."""
    found = []
    for text in given:
        case = _images_as_engines({name: [value] for name, value in pairs("--case", tuple(text.split(","))).items()})
        if both := sorted(case.keys() & vary.keys()):
            raise LabError(f"--case and --vary both name {both[0]}", "one of the two", f"leave out --vary {both[0]}=…")
        found.append({name: files.named(name, value, cnf) for name, (value,) in case.items()})
    return found


def _images_as_engines(vary: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return what varies with images as engines: each is the engine of its cases."""
    if IMAGE not in vary:
        return vary
    if ENGINE in vary:
        raise LabError("--vary names engines and images", "one of the two", "--vary engine=mariadb,mysql:8.4")
    found = {ENGINE if name == IMAGE else name: values for name, values in vary.items()}
    return {**found, ENGINE: [server_text("", image) for image in found[ENGINE]]}


def _question(topologies: list[str], asked: dict[str, Any]) -> Question:
    short = {name: asked[name] for name in ("rtt", "clients", "rate", "endpoint") if asked[name] is not None}
    cnf: dict[str, GivenFile] = {}
    vary = _images_as_engines({name: values_of(values) for name, values in pairs("--vary", asked["varied"]).items()})
    managers = (asked["manager"] or "").split(",")
    if len(managers) > 1:
        vary |= {MANAGER: managers}
    elif managers[0]:
        short[MANAGER] = managers[0]
    cases = _cases(asked["cases"], vary, cnf)
    of_cases = {name: list(dict.fromkeys(case.get(name, "") for case in cases)) for case in cases for name in case}
    for option in ("--engine", "--image"):
        if ENGINE in {**vary, **of_cases} and asked[option.removeprefix("--")]:
            raise LabError(
                f"{option} and {'--case' if cases else '--vary'} engine=… both name engines",
                "one of the two",
                f"leave out {option}",
            )
    if asked["load_command"] is not None and asked["workload"] is not None:
        raise LabError("--workload and --load-command both name a load", "one of the two", "leave out --workload")
    return Question(
        topologies=topologies,
        vary={name: [files.named(name, each, cnf) for each in values] for name, values in vary.items()} | of_cases,
        cases=cases,
        settings=files.settings_of(asked, cnf, short),
        baseline={name: files.named(name, each, cnf) for name, each in pairs("--baseline", asked["baseline"]).items()},
        cnf=list(cnf.values()),
        claims=list(asked["claims"]),
        margin=options.percentage(asked["margin"]),
        workload=INSERTS if asked["workload"] is None else _load(asked["workload"]),
        script_options=pairs("--script-option", asked["script_options"]),
        schema=_given(asked["schema"]),
        init=_given(asked["init"]),
        engine=lab_text(asked["engine"], asked["image"]),
        drill=asked["drill"] or "",
        drill_runs=asked["drill_runs"] or 0,
        seconds=_whole_seconds(asked["seconds"]),
        max_minutes=asked["longest"] / 60,
        load_image=asked["load_image"] or "",
        **{name: asked[name] for name in ("rounds", "ledger", "check", "load_command")},
    )


def _whole_seconds(given: float) -> int:
    if given != int(given):
        raise LabError(f"--duration is {given:g} s", "whole seconds of load", "--duration 3s")
    return int(given)


def _load(text: str) -> str | GivenFile:
    """Return the name of a load, or the file that is one: one of the user's own by its name, or any by its path."""
    own = catalogue.workloads().get(text)
    is_file = Path(text).suffix or "/" in text
    return given_texts.read_for_a_record(own or Path(text)) if own or is_file else text


def _given(path: str | None) -> GivenFile | None:
    return given_texts.read_for_a_record(Path(path)) if path else None


def _write(path: Path, question: Question) -> None:
    with writing(path):
        if path.exists() and not path.read_bytes().startswith(FIRST_LINE.encode()):
            raise LabError(
                f"{path} exists, and is not a question that `lab ask` saved", "a new file, or a saved question"
            )
    # Editors find the schema by the first line: relative within this checkout, so that both can move.
    schema, folder = catalogue.ROOT / "docs" / "question.schema.json", path.resolve().parent
    found = os.path.relpath(schema, folder) if folder.is_relative_to(catalogue.ROOT.resolve()) else str(schema)
    write_for_user(path, f"{FIRST_LINE}{found}\n".encode() + msgspec.yaml.encode(question))


@command("predict")
@of_topologies
@click.option("--clients", metavar="VALUES")
@click.option("--replicas", metavar="VALUES")
@click.option("--rtt", metavar="VALUES")
@click.option("--vary", "varied", multiple=True, metavar="NAME=VALUE,VALUE…")
@click.option("--set", "settings", multiple=True, metavar=SETTING)
@click.option("--engine", metavar="ENGINE", shell_complete=names.engines)
@click.option("--from", "runs", multiple=True, metavar="RUN", shell_complete=names.runs)
@click.option("--seed", default=7, show_default=True)
@options.as_json
def predict(
    *,
    arguments: tuple[str, ...],
    clients: str | None,
    replicas: str | None,
    rtt: str | None,
    varied: tuple[str, ...],
    settings: tuple[str, ...],
    engine: str | None,
    runs: tuple[str, ...],
    seed: int,
    json_: bool,
) -> None:
    topologies = topologies_in(arguments).split(",")
    short = {"clients": clients, room.REPLICAS: replicas, "rtt": rtt}
    vary = {name: values_of(text) for name, text in pairs("--vary", varied).items()}
    fixed = {name: [value] for name, value in pairs("--set", settings).items()}
    given = {name: values_of(text) for name, text in short.items() if text is not None}
    if twice := sorted((vary.keys() & fixed.keys()) | (given.keys() & (vary.keys() | fixed.keys()))):
        raise LabError(f"{twice[0]} is given twice", "each setting once", f"leave out --vary {twice[0]}=…")
    wanted = room.asked(topologies, {**vary, **fixed, **given}, engine or "")
    sources, points = room.measured(runs, wanted)
    found = room.predicted(wanted, sources, points, seed)
    print_json(found) if json_ else out.print(predicted.rendered(found))
