"""The commands that change which node accepts writes, the same for every kind of replication."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from replication_lab import replication
from replication_lab.cli import command, names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, of_lab
from replication_lab.lab import managers
from replication_lab.lab import up as labs
from replication_lab.replication.kind import Nodes
from replication_lab.replication.role_changes import SWITCHOVER
from replication_lab.world.docker.attached import refuse_attached


def _of_node(command: Callable[..., Any]) -> Callable[..., Any]:
    one_node = click.argument("node", shell_complete=names.completed_by(names.nodes))
    return one_node(of_lab(as_json(command)))


@contextmanager
def _changing(name: str | None, command: str) -> Iterator[Nodes]:
    """Give the nodes of the lab of that name, which no other command uses, changes or removes within the block."""
    with labs.changing(name, f"lab {command}") as lab:
        refuse_attached(lab, command)
        labs.refuse_in_use(lab)
        # A planned change is made by the manager itself, if there is one.
        with nullcontext() if command == SWITCHOVER else managers.quieted(lab):
            yield replication.of(lab)


@command("failover")
@_of_node
@click.option("--allow-data-loss", is_flag=True)
def failover(node: str, allow_data_loss: bool, name: str | None, json_: bool) -> None:
    with _changing(name, "failover") as nodes:
        done = nodes.take_over(node, allow_data_loss)
    print_json(done) if json_ else output.promoted(out, done)


@command("switchover")
@_of_node
def switchover(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, SWITCHOVER) as nodes:
        done = nodes.switch_over(node)
    print_json(done) if json_ else output.switched(out, done)


@command("rejoin")
@_of_node
@click.option("--discard-errant", is_flag=True)
def rejoin(node: str, discard_errant: bool, name: str | None, json_: bool) -> None:
    with _changing(name, "rejoin") as nodes:
        done = nodes.take_back(node, discard_errant, tell)
    print_json(done) if json_ else output.rejoined(out, done)


@command("standby")
@_of_node
def standby(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, "standby") as nodes:
        done = nodes.standby(node)
    moved = "" if done.seconds is None else f"; its service moved to the peer in {done.seconds:.1f} s"
    print_json(done) if json_ else out.print(f"{done.standby} is in standby{moved}")


@command("online")
@_of_node
def online(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, "online") as nodes:
        done = nodes.online(node, tell)
    print_json(done) if json_ else output.rejoined(out, done)
