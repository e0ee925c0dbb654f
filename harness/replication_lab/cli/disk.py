"""The commands for the storage of a node: disk …, and diagnose."""

from typing import Any

import click

from replication_lab import replication
from replication_lab.cli import command, help_of, names, output
from replication_lab.cli.console import leave_by, out, print_json, tell
from replication_lab.cli.options import all_of, as_json, as_rows, of_disks, of_duration, of_lab, one_node
from replication_lab.lab import disks
from replication_lab.lab import migrate as migration
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.lab.diagnosis import diagnosed
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.world.docker import project

of_one_disk = all_of(one_node, click.argument("disk"), of_lab, as_json)


disk = click.Group("disk", help=help_of("disk"))


@command("disk list", disk)
@click.argument("node", required=False, shell_complete=names.nodes)
@of_lab
@as_rows
def disk_list(node: str | None, name: str | None, json_: bool) -> None:
    lab = project.find(name)
    seen = views.disks(lab, [node] if node else None)
    print_json(seen, json_) if json_ else output.disks(out, seen)


@command("disk limit", disk)
@one_node
@click.argument("disk")
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE…")
@of_lab
@as_json
def disk_limit(node: str, disk: str, changes: tuple[str, ...], name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab disk limit") as lab:
        limits = disks.change_limits(lab, node, disk, changes)
    print_json(limits) if json_ else out.print(f"{node} {disk}: {disks.said(limits)}")


@command("disk check", disk)
@one_node
@of_lab
@as_json
def disk_check(node: str, name: str | None, json_: bool) -> None:
    proofs = disks.check(project.find(name), node, tell)
    print_json(proofs) if json_ else output.proofs(out, proofs)
    leave_by(proofs, ExitCode.FINDING)


@command("disk fail", disk)
@of_one_disk
def disk_fail(node: str, disk: str, name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab disk fail") as lab:
        disks.fail(lab, node, disk)
    said = f"{node} {disk} fails; next: {replication.of(lab).after_disk_failure.format(node=node)}"
    print_json({"failed": disk}) if json_ else out.print(said)


@command("disk corrupt", disk)
@one_node
@click.argument("disk")
@click.argument("text")
@of_lab
@as_json
def disk_corrupt(node: str, disk: str, text: str, name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab disk corrupt") as lab:
        sectors = disks.corrupt(lab, node, disk, text)
    said = f"{node} {disk}: {len(sectors)} sectors inverted; reading them from the disk returns wrong data"
    print_json({"corrupted": disk, "offsets": sectors}) if json_ else out.print(said)


@command("disk heal", disk)
@of_one_disk
def disk_heal(node: str, disk: str, name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab disk heal") as lab:
        disks.heal(lab, node, disk)
    then = replication.of(lab).after_disk_healed.format(node=node)
    said = f"{node} {disk} answers again" + (f"; to use it again: {then}" if then else "")
    print_json({"healed": disk}) if json_ else out.print(said)


@command("disk replace", disk)
@of_one_disk
def disk_replace(node: str, disk: str, name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab disk replace") as lab:
        disks.array_of(lab, node).replace(disk, lambda percent: tell(f"  {percent:.0f} % rebuilt"))
    print_json({"replaced": disk}) if json_ else out.print(f"{node} {disk} is rebuilt")


@command("disk migrate", disk)
@one_node
@click.option("--to", "level", required=True, metavar="LEVEL")
@of_disks
@of_lab
@as_json
def migrate(node: str, level: str, name: str | None, json_: bool, **of_disks: Any) -> None:
    with labs.changing(name, "lab disk migrate") as lab:
        [storage] = labs.storage_of(lab.topology.name, [f"{node}={level}"], **of_disks).values()
        done = migration.migrate(lab, node, storage, tell)
    print_json(done) if json_ else output.migrated(out, done)


@command("diagnose")
@one_node
@of_duration("5s", 1, 600)
@of_lab
@as_json
def diagnose(node: str, seconds: float, name: str | None, json_: bool) -> None:
    found, seen = diagnosed(project.find(name), node, seconds)
    data = {"diagnosis": found, "sample": seen}
    print_json(data) if json_ else output.say(out, "diagnosis", found=found, seconds=seen.seconds)
