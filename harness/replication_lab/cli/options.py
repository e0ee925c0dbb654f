"""The options that several commands share."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from replication_lab.cli import names
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import NOISE, WAIT
from replication_lab.model.lab.server_name import by_node, lab_text, text_of_nodes
from replication_lab.model.lab.storage import AUTO
from replication_lab.world import catalogue

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*parameters: Decorator) -> Decorator:
    """Return what adds these arguments and options to a command, in this order."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return added


one_node = click.argument("node", shell_complete=names.completed_by(names.nodes))
one_run = click.argument("run", default="latest", shell_complete=names.completed_by(names.runs))
as_json = click.option("--json", "json_", is_flag=True, help="Print JSON instead of text.")
of_lab = click.option(
    "--lab",
    "name",
    metavar="NAME",
    shell_complete=names.completed_by(names.labs),
    help="Name of the lab; optional if only one lab is running.",
)
keep_failed = click.option(
    "--keep",
    is_flag=True,
    help="If a verdict is unexpected or an error occurs, end the run and leave the lab up.",
)
on_noise = click.option(
    "--noise",
    type=click.Choice(NOISE),
    default=WAIT,
    show_default=True,
    help="What to do while other programs use the CPUs: wait for a quiet machine (a minute for each measurement, ten "
    "in all) and measure again; stop the run; or accept the figures, whose verdicts are then UNKNOWN.",
)
of_engine = click.option(
    "--engine",
    shell_complete=names.completed_by(names.engines),
    multiple=True,
    metavar="[NODE=]ENGINE",
    help="Database server of NODE, or of all nodes: a name from `lab list engines`, or a vendor's version, as "
    "mysql:8.4, mariadb:10.11.9, percona:8.4; may be repeated.  [default: mysql-8.0 for group, else mariadb]",
)
of_image = click.option(
    "--image",
    multiple=True,
    metavar="[NODE=]IMAGE",
    help="Docker image to run as the server of NODE, or of all nodes, in place of the engine's own; may be repeated. "
    "It must follow the vendors' images (docs/images.md). --engine then says which engine it is.  "
    "[default: detected from the image]",
)


def server_of(topology: str, engines: Sequence[str], images: Sequence[str]) -> str:
    """Return the text that names the servers of a topology's nodes: one for all, or that of each."""
    nodes = [node.name for node in catalogue.topology(topology).nodes]
    return text_of_nodes(by_node(lab_text(engines, images), nodes, catalogue.default_engine(topology)))


of_cnf = click.option(
    "--cnf",
    multiple=True,
    metavar="[NODE=]FILE",
    help="my.cnf file that NODE, or every node, starts with; may be given for several nodes. It may set only variables "
    "of the server, in a group such as [mysqld].",
)
of_node_storage = click.option(
    "--storage",
    multiple=True,
    metavar="[NODE=]LEVEL[:DISKS]",
    help="Put the data of NODE, or of all replicas, on emulated disks: single, raid0, raid1, or raid0:3 for three; "
    "same as --set NODE.storage=LEVEL.  [default: no emulated disks]",
)
of_node_disk = click.option(
    "--disk",
    multiple=True,
    metavar="[NODE=]NAME",
    help="Model of the disks of NODE, or of all replicas, a name from `lab list disks`; same as --set NODE.disk=NAME. "
    "Without --storage it is a single disk.  [default: ssd]",
)
of_disks = all_of(
    click.option(
        "--disk",
        default="ssd",
        show_default=True,
        metavar="NAME",
        help="Disk model, a name from compose/storage/disks.yaml.",
    ),
    click.option("--disks", type=int, default=0, help="Number of disks, 2 to 8.  [default: 2, or 1 for single]"),
    click.option("--disk-size", "mib", type=int, default=2048, show_default=True, help="Size of each disk in MiB."),
    click.option(
        "--backend",
        default=AUTO,
        show_default=True,
        metavar="[auto|md|btrfs|vm]",
        help="RAID implementation; auto takes the first that this host supports.",
    ),
)


def percentage(text: str, option: str) -> float:
    """Return "10%" as 0.1. Raise LabError for anything else."""
    try:
        return float(text.removesuffix("%").strip()) / 100
    except ValueError:
        raise LabError(f"{option} {text!r} is not a percentage", "a number of percent", f"{option} 10%") from None
