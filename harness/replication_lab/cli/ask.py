"""The command for a user's own question."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from replication_lab import experiments, runs
from replication_lab.cli import files, names
from replication_lab.cli.console import tell
from replication_lab.cli.files import SETTING, pairs
from replication_lab.cli.options import (
    as_json,
    keep_failed,
    of_cnf,
    of_engine,
    of_image,
    of_node_disk,
    of_node_storage,
    on_noise,
    percentage,
)
from replication_lab.cli.record import print_summary
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.server_name import lab_text, server_text
from replication_lab.model.question.load import INSERTS
from replication_lab.model.question.question import NAME, Question
from replication_lab.model.question.setting import ENGINE
from replication_lab.world import catalogue, given_texts, places
from replication_lab.world.files import write_for_user, writing

IMAGE = "image"
# What a saved question begins with, before the path of its schema.
FIRST_LINE = "# yaml-language-server: $schema="
# Each load has a seed of its own, a thousand times this at most, which sysbench reads as a number of 32 bits.
HIGHEST_SEED = 2_000_000


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    metavar="TOPOLOGY[,TOPOLOGY…]",
    shell_complete=names.completed_by(catalogue.topologies),
)
@click.option(
    "--topology",
    "topologies",
    metavar="TOPOLOGY[,TOPOLOGY…]",
    shell_complete=names.completed_by(catalogue.topologies),
    help="Topologies to compare; same as the argument.",
)
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="NAME=VALUE,VALUE…",
    help="Setting to vary: clients, rate, rtt, replication, wait_point, protocol (of DRBD), engine, image, cnf (my.cnf "
    "files), NODE.storage, NODE.disk, a server's variable (sync_binlog sets it on every server, source.sync_binlog on "
    "one). Given several times, all combinations are measured.",
)
@click.option("--set", "settings", multiple=True, metavar=SETTING, help="Setting that is the same in every case.")
@of_cnf
@click.option(
    "--rtt",
    metavar="CONDITION",
    help="Round trip of every link: 40ms, 40ms±5ms, 40ms+loss=2% or the name of a toxic; same as --set rtt=CONDITION.  "
    "[default: a bare link]",
)
@click.option(
    "--clients", metavar="NUMBER", help="Number of concurrent clients; same as --set clients=NUMBER.  [default: 1]"
)
@click.option(
    "--rate",
    metavar="RATE",
    help="Transactions to begin each second (200/s) or minute (12000/m), evenly spaced, by all clients together; same "
    "as --set rate=RATE. Each latency then starts at the moment when the transaction should have begun.  "
    "[default: as many as possible]",
)
@of_node_storage
@of_node_disk
@click.option(
    "--baseline",
    multiple=True,
    metavar=SETTING,
    help="Value of a varied setting that its other values are compared with.  [default: the first value of the first "
    "--vary]",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="CLAIM",
    help="Claim to judge, such as 'throughput[sync_binlog=1] / throughput[sync_binlog=0] >= 0.9'; it may use "
    "throughput, p50, p95, p99, p99.9, errors (the share that failed) and lag (seconds).",
)
@click.option(
    "--workload",
    metavar="NAME|FILE",
    help="Load: inserts, a sysbench script such as oltp_read_write, FILE.lua (a script for sysbench) or FILE.sql "
    "(transactions between lines --).  [default: inserts]",
)
@click.option(
    "--load-command",
    metavar="CMD",
    help="Load in place of --workload: a command for sh that prints a line for each transaction (docs/asking.md).",
)
@click.option(
    "--load-image",
    metavar="IMAGE",
    help="Image that --load-command runs in.  [default: the image of the lab's own load]",
)
@click.option("--schema", metavar="FILE", help="SQL that makes tables before the load; may be gzipped (.gz).")
@click.option("--init", metavar="FILE", help="SQL to run before the load, after the tables are made.")
@of_engine
@of_image
@click.option("--seconds", default=3, show_default=True, help="Seconds of load per case and round.")
@click.option(
    "--margin",
    default="10%",
    show_default=True,
    metavar="PERCENT",
    help="Measure until the throughput and median latency of each case, divided by those of its baseline, are known "
    "within ± this share, at 95 % confidence.",
)
@click.option("--rounds", default=12, show_default=True, help="Maximum number of rounds.")
@click.option("--max-minutes", default=0.0, help="Start no round after this number of minutes.  [default: no limit]")
@click.option(
    "--drill",
    metavar="NAME",
    help="Drill to run for each case after the load, such as lose-source. It measures lost rows and the time without "
    "service; a claim may then use lost and rto.",
)
@click.option("--drill-runs", type=int, metavar="NUMBER", help="Number of drills for each case.  [default: 3]")
@click.option(
    "--ledger",
    is_flag=True,
    help="In a drill, run the transactions of --workload FILE.sql, each with a row in a ledger; lost then counts these "
    "transactions.  [default: count rows that the drill inserts]",
)
@click.option("--save", metavar="FILE", help="Also write the question as a YAML file, for `lab run FILE`.")
@click.option("--seed", default=7, show_default=True, help="Seed for the order of the cases and for the rows.")
@on_noise
@keep_failed
@as_json
def ask(
    *,
    arguments: tuple[str, ...],
    topologies: str | None,
    save: str | None,
    seed: int,
    noise: str,
    keep: bool,
    json_: bool,
    **asked: Any,
) -> None:
    """Measure what settings or topologies change, and print each effect with its 95 % interval.

    Exit status 0: all effects are known and all claims hold, 1: a claim does not hold, 2: something is not known.

    Example: lab ask semisync --rtt 40ms --vary sync_binlog=0,1 --vary clients=1,16

    Example: lab ask async,semisync,galera,group,drbd --rtt 40ms --clients 4 --drill lose-source

    Example: lab ask semisync --vary source.disk=ssd,sata-7200

    Example: lab ask semisync --vary engine=mariadb,mysql-8.0

    Example: lab ask semisync --rtt 10ms --vary clients=1,16 --schema shop.sql.gz --workload orders.sql
    """
    _refuse_bad_options(seed, {**asked, "topology": topologies, "save": save})
    question = _question(_topologies(arguments, topologies).split(","), asked)
    experiment = experiments.asked(question)
    question.refuse_a_single_case()
    if save:
        _write(Path(save), question)
    folder, summary = runs.run(RunRequest(experiment, experiment.engines, NAME, seed, noise, keep), tell)
    print_summary(summary, json_)
    tell(f"record and report: {places.from_here(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


def _topologies(arguments: tuple[str, ...], option: str | None) -> str:
    """Return the text that names the topologies; LabError for none, for several texts, or for argument and option."""
    given = [*arguments, *([] if option is None else [option])]
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


def _images_as_engines(vary: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return what varies with images as engines: each is the engine of its cases."""
    if IMAGE not in vary:
        return vary
    if ENGINE in vary:
        raise LabError("--vary names engines and images", "one of the two", "--vary engine=mariadb,mysql:8.4")
    found = {ENGINE if name == IMAGE else name: values for name, values in vary.items()}
    return {**found, ENGINE: [server_text("", image) for image in found[ENGINE]]}


def _question(topologies: list[str], asked: dict[str, Any]) -> Question:
    short = {name: asked[name] for name in ("rtt", "clients", "rate") if asked[name] is not None}
    cnf: dict[str, GivenFile] = {}
    vary = _images_as_engines({name: values.split(",") for name, values in pairs("--vary", asked["varied"]).items()})
    for option in ("--engine", "--image"):
        if ENGINE in vary and asked[option.removeprefix("--")]:
            raise LabError(f"{option} and --vary engine=… both name engines", "one of the two", f"leave out {option}")
    if asked["load_command"] is not None and asked["workload"] is not None:
        raise LabError("--workload and --load-command both name a load", "one of the two", "leave out --workload")
    return Question(
        topologies=topologies,
        vary={name: files.named(name, values, cnf) for name, values in vary.items()},
        settings=files.settings_of(asked, cnf, short),
        baseline={
            name: files.named(name, [value], cnf)[0] for name, value in pairs("--baseline", asked["baseline"]).items()
        },
        cnf=list(cnf.values()),
        claims=list(asked["claims"]),
        margin=percentage(asked["margin"], "--margin"),
        workload=INSERTS if asked["workload"] is None else _load(asked["workload"]),
        schema=_given(asked["schema"]),
        init=_given(asked["init"]),
        engine=lab_text(asked["engine"], asked["image"]),
        drill=asked["drill"] or "",
        drill_runs=_number_of_drills(asked["drill_runs"]),
        load_image=asked["load_image"] or "",
        **{name: asked[name] for name in ("seconds", "rounds", "max_minutes", "ledger", "load_command")},
    )


def _number_of_drills(given: int | None) -> int:
    """Return 0 for the default. Raise LabError for less than one."""
    if given is not None and given < 1:
        raise LabError(f"--drill-runs is {given}", "a number from 1 to 50", "--drill-runs 3")
    return given or 0


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
    write_for_user(path, _schema_for(path).encode() + msgspec.yaml.encode(question))


def _schema_for(path: Path) -> str:
    """Return the line by which editors find the schema: relative within this checkout, so that both can move."""
    schema, folder = catalogue.ROOT / "docs" / "question.schema.json", path.resolve().parent
    found = os.path.relpath(schema, folder) if folder.is_relative_to(catalogue.ROOT.resolve()) else str(schema)
    return f"{FIRST_LINE}{found}\n"
