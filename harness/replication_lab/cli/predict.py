"""The command for what no machine at hand can measure."""

import click
import msgspec

from replication_lab import predict as room
from replication_lab.cli import command, names
from replication_lab.cli.ask import topologies_in
from replication_lab.cli.console import out, print_json
from replication_lab.cli.files import SETTING, pairs
from replication_lab.cli.options import as_json
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.quantity import values_of
from replication_lab.report import predicted
from replication_lab.world import catalogue


@command("predict")
@click.argument(
    "arguments",
    nargs=-1,
    metavar="TOPOLOGY[,TOPOLOGY…]",
    shell_complete=names.completed_by(catalogue.topologies),
)
@click.option("--clients", metavar="VALUES")
@click.option("--replicas", metavar="VALUES")
@click.option("--rtt", metavar="VALUES")
@click.option("--vary", "varied", multiple=True, metavar="NAME=VALUE,VALUE…")
@click.option("--set", "settings", multiple=True, metavar=SETTING)
@click.option("--engine", metavar="ENGINE", shell_complete=names.completed_by(names.engines))
@click.option("--from", "runs", multiple=True, metavar="RUN", shell_complete=names.completed_by(names.runs))
@click.option("--seed", default=7, show_default=True)
@as_json
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
    if json_:
        print_json(msgspec.to_builtins(found))
    else:
        out.print(predicted.rendered(found))
