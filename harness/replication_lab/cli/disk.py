"""The commands for the storage of a node: disk …, and diagnose."""

import sys
from typing import Any

import click

from replication_lab import replication
from replication_lab.cli import FAILED, names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import all_of, as_json, of_disks, of_lab, one_node
from replication_lab.lab import disks
from replication_lab.lab import migrate as migration
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.probes import bottleneck
from replication_lab.probes.node_resources import sample
from replication_lab.world.docker import machine, project

of_one_disk = all_of(one_node, click.argument("disk"), of_lab, as_json)


@click.group()
def disk() -> None:
    """Manage the disks under a node: list, limit, check, fail, corrupt, heal, replace, migrate.

    Example: lab disk list
    """


@disk.command("list")
@click.argument("node", required=False, shell_complete=names.completed_by(names.nodes))
@of_lab
@as_json
def disk_list(node: str | None, name: str | None, json_: bool) -> None:
    """List emulated disks with their limits and I/O counters.

    Example: lab disk list replica
    """
    lab = project.find(name)
    seen = views.disks(lab, [node] if node else None)
    print_json(seen) if json_ else output.disks(out, seen)


@disk.command("limit")
@one_node
@click.argument("disk")
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE…")
@of_lab
@as_json
def disk_limit(node: str, disk: str, changes: tuple[str, ...], name: str | None, json_: bool) -> None:
    """Change the limits of a disk in use: read_iops, write_iops, bandwidth, flush_us, write_cache.

    Example: lab disk limit replica disk1 write_iops=100 flush_us=8000
    """
    with labs.changing(name, "lab disk limit") as lab:
        limits = disks.change_limits(lab, node, disk, changes)
    print_json(limits) if json_ else out.print(f"{node} {disk}: {disks.said(limits)}")


@disk.command("check")
@one_node
@of_lab
@as_json
def disk_check(node: str, name: str | None, json_: bool) -> None:
    """Measure each disk by direct I/O, and read every file of the node's data.

    Where the disk is replicated, compare both copies block by block while they are in use. Exit with status 3 if a
    check fails.

    Example: lab disk check replica
    """
    proofs = disks.check(project.find(name), node, tell)
    print_json(proofs) if json_ else output.proofs(out, proofs)
    sys.exit(0 if all(proof.ok for proof in proofs) else FAILED)


@disk.command("fail")
@of_one_disk
def disk_fail(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Make every request to a disk fail with EIO.

    Example: lab disk fail replica disk1
    """
    with labs.changing(name, "lab disk fail") as lab:
        disks.fail(lab, node, disk)
    said = f"{node} {disk} fails; next: {replication.of(lab).after_disk_failure(node)}"
    print_json({"failed": disk}) if json_ else out.print(said)


@disk.command("corrupt")
@one_node
@click.argument("disk")
@click.argument("text")
@of_lab
@as_json
def disk_corrupt(node: str, disk: str, text: str, name: str | None, json_: bool) -> None:
    """Invert the sectors of a disk that contain TEXT: reads succeed and return wrong data.

    Example: lab disk corrupt replica disk1 "text of a row"
    """
    with labs.changing(name, "lab disk corrupt") as lab:
        sectors = disks.corrupt(lab, node, disk, text)
    said = f"{node} {disk}: {len(sectors)} sectors inverted; reading them from the disk returns wrong data"
    print_json({"corrupted": disk, "offsets": sectors}) if json_ else out.print(said)


@disk.command("heal")
@of_one_disk
def disk_heal(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Bring a failed disk back with its old contents.

    On RAID1 use `disk replace`: the old contents are stale.

    Example: lab disk heal replica disk1
    """
    with labs.changing(name, "lab disk heal") as lab:
        disks.heal(lab, node, disk)
    then = replication.of(lab).after_disk_healed(node)
    said = f"{node} {disk} answers again" + (f"; to use it again: {then}" if then else "")
    print_json({"healed": disk}) if json_ else out.print(said)


@disk.command("replace")
@of_one_disk
def disk_replace(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Exchange a disk of RAID1 for an empty one and rebuild its data while the server runs.

    Example: lab disk replace replica disk1
    """
    with labs.changing(name, "lab disk replace") as lab:
        disks.array_of(lab, node).replace(disk, lambda percent: tell(f"  {percent:.0f} % rebuilt"))
    print_json({"replaced": disk}) if json_ else out.print(f"{node} {disk} is rebuilt")


@disk.command("migrate")
@one_node
@click.option("--to", "level", required=True, metavar="LEVEL", help="Target storage: single, raid0 or raid1.")
@of_disks
@of_lab
@as_json
def migrate(node: str, level: str, name: str | None, json_: bool, **of_disks: Any) -> None:
    """Move a replica's data onto other disks: stop, copy, switch, start, sync, compare.

    An error or Ctrl-C before the switch restarts the replica on its old data. If the command was killed, run it again
    to resume.

    Example: lab disk migrate replica --to raid0 --disk sata-7200
    """
    with labs.changing(name, "lab disk migrate") as lab:
        [storage] = labs.storage_of(lab.topology.name, [f"{node}={level}"], **of_disks).values()
        done = migration.migrate(lab, node, storage, tell)
    print_json(done) if json_ else output.migrated(out, done)


@click.command()
@one_node
@click.option(
    "--seconds", type=click.FloatRange(1, 600), default=5, show_default=True, help="Seconds to sample, 1 to 600."
)
@of_lab
@as_json
def diagnose(node: str, seconds: float, name: str | None, json_: bool) -> None:
    """Name the bottleneck of a node: lock, network, CPU, fsync latency, disk, applier or none.

    Example: lab diagnose replica --seconds 10
    """
    if elsewhere := machine.facts().elsewhere:
        tell(f"pressure and disks of the Docker engine's machine cannot be read: {elsewhere}")
    seen = sample(project.find(name), node, seconds)
    found = bottleneck.diagnose(seen)
    print_json({"diagnosis": found, "sample": seen}) if json_ else output.diagnosis(out, found, seen)
