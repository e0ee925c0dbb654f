"""The commands that change roles: failover, rejoin, drbd …, ha …."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from replication_lab.cli import FAILED, names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, of_lab
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.replication import drbd_roles as replicated_disk
from replication_lab.replication import failover as succession
from replication_lab.replication import pacemaker as cluster_manager
from replication_lab.world.docker import project
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines.drbd import verify


@contextmanager
def _changing(name: str | None, command: str) -> Iterator[Lab]:
    """Give the lab of that name, which no other command uses, changes or removes within the block."""
    with labs.changing(name, command) as lab:
        labs.refuse_in_use(lab)
        yield lab


@click.command()
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@click.option("--allow-data-loss", is_flag=True, help="Promote even if NODE lacks transactions of another server.")
@of_lab
@as_json
def failover(node: str, allow_data_loss: bool, name: str | None, json_: bool) -> None:
    """Promote a replica to source, fence the old source, and repoint the other replicas.

    A replica with transactions that the new source lacks is not repointed; the command lists them.

    Example: lab failover replica
    """
    with _changing(name, "lab failover") as lab:
        done = succession.failover(lab, node, allow_data_loss)
    print_json(done) if json_ else output.promoted(out, done)


@click.command()
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@click.option(
    "--discard-errant",
    is_flag=True,
    help="Discard the transactions that only NODE has: replace its data with the source's.",
)
@of_lab
@as_json
def rejoin(node: str, discard_errant: bool, name: str | None, json_: bool) -> None:
    """Attach a node, such as a former source, as a replica; list its errant transactions.

    Example: lab rejoin source
    """
    with _changing(name, "lab rejoin") as lab:
        done = succession.rejoin(lab, node, discard_errant)
    print_json(done) if json_ else output.rejoined(out, done)


@click.group()
def drbd() -> None:
    """Manage the DRBD resource of two machines: status, promote, standby, online, resolve, verify.

    Example: lab drbd status
    """


@drbd.command("status")
@of_lab
@as_json
def drbd_status(name: str | None, json_: bool) -> None:
    """Show the DRBD resource as each machine sees it: role, connection, disk states, KiB out of sync.

    Example: lab drbd status
    """
    seen = views.resource(project.find(name))
    print_json(seen) if json_ else output.resource(out, seen)


@drbd.command("promote")
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@click.option("--allow-data-loss", is_flag=True, help="Promote even if the peer may hold newer writes.")
@of_lab
@as_json
def drbd_promote(node: str, allow_data_loss: bool, name: str | None, json_: bool) -> None:
    """Make a machine the primary: mount the file system and start the server.

    The peer must be down or secondary.

    Example: lab drbd promote node2
    """
    with _changing(name, "lab drbd promote") as lab:
        seconds = replicated_disk.promote(lab, node, allow_data_loss)
    print_json({"primary": node, "seconds": seconds}) if json_ else out.print(
        f"{node} accepts connections after {seconds:.1f} s"
    )


@drbd.command("standby")
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def drbd_standby(node: str, name: str | None, json_: bool) -> None:
    """Take a machine out of service; its peer takes over and writes to its own disk only.

    Example: lab drbd standby node2
    """
    with _changing(name, "lab drbd standby") as lab:
        seconds = replicated_disk.standby(lab, node)
    moved = "" if seconds is None else f"; its service moved to the peer in {seconds:.1f} s"
    print_json({"standby": node, "seconds": seconds}) if json_ else out.print(f"{node} is in standby{moved}")


@drbd.command("online")
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def drbd_online(node: str, name: str | None, json_: bool) -> None:
    """Reconnect a machine to its peer and resync it.

    Example: lab drbd online node2
    """
    with _changing(name, "lab drbd online") as lab:
        found = replicated_disk.online(lab, node, lambda percent: tell(f"  {percent:.0f} % copied"))
    print_json(found) if json_ else out.print(f"{node}: {found.words()}")


@drbd.command("resolve")
@click.option(
    "--victim",
    required=True,
    metavar="NODE",
    shell_complete=names.completed_by(names.nodes),
    help="Node whose changes since the split brain are discarded.",
)
@of_lab
@as_json
def drbd_resolve(victim: str, name: str | None, json_: bool) -> None:
    """End a split brain: discard the victim's own changes and resync it from its peer.

    Example: lab drbd resolve --victim node2
    """
    with _changing(name, "lab drbd resolve") as lab:
        found = replicated_disk.resolve(lab, victim)
    print_json(found) if json_ else out.print(f"{victim}: {found.words()}")


@drbd.command("verify")
@of_lab
@as_json
def drbd_verify(name: str | None, json_: bool) -> None:
    """Compare both disks block by block while they are in use.

    Exit with status 3 if they differ.

    Example: lab drbd verify
    """
    try:
        differing = verify(project.find(name), lambda percent: tell(f"  {percent:.0f} % compared"))
    except KeyboardInterrupt:
        tell("the machines continue to compare; to see their progress: ./lab drbd status")
        raise
    print_json({"differing_kib": differing}) if json_ else out.print(f"{differing} KiB differ")
    if differing:
        tell("to copy the primary's blocks to its peer, reconnect the peer: ./lab drbd online NODE")
    sys.exit(FAILED if differing else 0)


@click.group()
def ha() -> None:
    """Manage the Pacemaker cluster of two machines: status, standby, online.

    Example: lab ha status
    """


@ha.command("status")
@click.argument("node", required=False, shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def ha_status(node: str | None, name: str | None, json_: bool) -> None:
    """Show cluster members, resources and the node with the service IP, as seen by NODE if given.

    Example: lab ha status node1 --json
    """
    seen = views.cluster(project.find(name), node or "")
    print_json(seen) if json_ else output.cluster(out, seen)


@ha.command("standby")
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def ha_standby(node: str, name: str | None, json_: bool) -> None:
    """Put a machine in standby with `crm node standby`; its resources move to the peer.

    Example: lab ha standby node1
    """
    with _changing(name, "lab ha standby") as lab:
        seconds = cluster_manager.standby(lab, node)
    moved = "" if seconds is None else f"; clients reached the service on the peer after {seconds:.1f} s"
    print_json({"standby": node, "seconds": seconds}) if json_ else out.print(f"{node} is in standby{moved}")


@ha.command("online")
@click.argument("node", shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def ha_online(node: str, name: str | None, json_: bool) -> None:
    """Bring a machine back online with `crm node online`, and wait until both disks are in sync.

    Example: lab ha online node1
    """
    with _changing(name, "lab ha online") as lab:
        seconds = cluster_manager.online(lab, node)
    print_json({"online": node, "seconds": seconds}) if json_ else out.print(
        f"{node} is online and in sync after {seconds:.1f} s"
    )
