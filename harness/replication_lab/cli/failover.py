"""The commands that change which node accepts writes, the same for every kind of replication."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from replication_lab import replication
from replication_lab.cli import names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, of_lab
from replication_lab.lab import up as labs
from replication_lab.replication.kind import Nodes
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
        yield replication.of(lab)


@click.command()
@_of_node
@click.option("--allow-data-loss", is_flag=True, help="Promote even if NODE lacks writes of another node.")
def failover(node: str, allow_data_loss: bool, name: str | None, json_: bool) -> None:
    """Let NODE accept writes in place of the source, primary or machine that did.

    A replica becomes the source; the old source is fenced, and the other replicas are repointed. A replica with
    transactions that the new source lacks is not repointed; the command lists them. A member of a group becomes its
    primary. A machine with a replicated disk becomes DRBD's primary; its peer must be down or secondary. Under
    Pacemaker the service moves to NODE.

    Example: lab failover replica
    """
    with _changing(name, "failover") as nodes:
        done = nodes.take_over(node, allow_data_loss)
    print_json(done) if json_ else output.promoted(out, done)


@click.command()
@_of_node
@click.option(
    "--discard-errant",
    is_flag=True,
    help="Discard what only NODE has: replace its data with the source's; after a split brain, its own changes.",
)
def rejoin(node: str, discard_errant: bool, name: str | None, json_: bool) -> None:
    """Take NODE back after another node took over, such as a former source; list its errant transactions.

    A machine with a replicated disk reconnects and is resynced; with --discard-errant it is the victim of a split
    brain.

    Example: lab rejoin source
    """
    with _changing(name, "rejoin") as nodes:
        done = nodes.take_back(node, discard_errant, tell)
    print_json(done) if json_ else output.rejoined(out, done)


@click.command()
@_of_node
def standby(node: str, name: str | None, json_: bool) -> None:
    """Take a machine with a replicated disk out of service; its peer takes over and writes to its own disk only.

    Under Pacemaker by `crm node standby`.

    Example: lab standby node1
    """
    with _changing(name, "standby") as nodes:
        done = nodes.standby(node)
    moved = "" if done.seconds is None else f"; its service moved to the peer in {done.seconds:.1f} s"
    print_json(done) if json_ else out.print(f"{done.standby} is in standby{moved}")


@click.command()
@_of_node
def online(node: str, name: str | None, json_: bool) -> None:
    """Take a machine back into service after a standby or a disk failure, and wait until both disks are in sync.

    Under Pacemaker by `crm node online`.

    Example: lab online node1
    """
    with _changing(name, "online") as nodes:
        done = nodes.online(node, tell)
    print_json(done) if json_ else output.rejoined(out, done)
