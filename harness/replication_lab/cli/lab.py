"""The commands for a lab as a whole: up, down, status, show, env, toxic, engines, doctor and so on."""

import shlex
import sys
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from replication_lab.cli import FAILED, cli, names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, of_disks, of_lab
from replication_lab.lab import doctor as examination
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.lab.connections import variables
from replication_lab.model.errors import LabError
from replication_lab.model.lab_request import LabRequest
from replication_lab.world import catalogue
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import project

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("topology", default="semisync", shell_complete=names.completed_by(catalogue.topologies))
@click.option(
    "--engine",
    default="mariadb",
    show_default=True,
    shell_complete=names.completed_by(names.engines),
    help="Database server to run; `lab engines` lists the choices.",
)
@click.option(
    "--lab",
    "name",
    metavar="NAME",
    help="Name of the lab and its Compose project; another name starts a second lab.  [default: lab-TOPOLOGY]",
)
@click.option(
    "--toxic",
    "toxics",
    multiple=True,
    metavar="LINK=TOXIC",
    help="Put TOXIC on LINK instead of the topology's default; may be repeated. `lab toxic` lists the choices.",
)
@click.option(
    "--storage",
    multiple=True,
    metavar="[NODE=]LEVEL",
    help="Put the data of NODE, or of all replicas, on emulated disks: single, raid0 or raid1; may be repeated.  "
    "[default: no emulated disks]",
)
@of_disks
@as_json
def up(
    *,
    topology: str,
    engine: str,
    name: str | None,
    toxics: tuple[str, ...],
    storage: tuple[str, ...],
    json_: bool,
    **of_disks: Any,
) -> None:
    """Start a topology, verify it, and print connection details.

    `lab list` shows the topologies, engines, toxics and disks.

    Example: lab up semisync --engine mysql-8.0 --toxic source-replica=wan-200ms

    Example: lab up async --storage raid0 --disk sata-7200
    """
    source = click.get_current_context().get_parameter_source
    given = [f"--{each}" for each in of_disks if source(each) is ParameterSource.COMMANDLINE]
    placed = labs.storage_of(topology, storage, given, **of_disks)
    found, changed = catalogue.topology(topology), dict(map(_link_and_toxic, toxics))
    lab = labs.up(LabRequest(found, engine, name or f"lab-{topology}", changed, placed), tell)
    if json_:
        print_json(views.view(lab))
    else:
        output.how_to_connect(out, lab)


def _link_and_toxic(text: str) -> tuple[str, str]:
    link, equals, toxic = text.partition("=")
    if not equals:
        raise LabError(f"--toxic {text} has no equals sign", "LINK=TOXIC", "./lab up --help")
    return link, toxic


@click.command()
@of_lab
@as_json
def down(name: str | None, json_: bool) -> None:
    """Stop a lab and delete its data; --lab is optional if only one lab is running.

    Example: lab down --lab lab-semisync
    """
    gone = labs.down(name, tell)
    if json_:
        print_json({"down": gone})


@click.command()
@of_lab
@as_json
def status(name: str | None, json_: bool) -> None:
    """Show the running labs: nodes, links, toxics, replication.

    Example: lab status --json
    """
    docker_engine.client()
    chosen = [project.find(name)] if name else list(project.all_labs().values())
    seen = [views.view(lab) for lab in chosen]
    if json_:
        print_json(seen)
    else:
        output.status(out, seen)


@click.command()
@of_lab
@as_json
def show(name: str | None, json_: bool) -> None:
    """Show one lab as a tree: roles, links, toxics, state.

    Example: lab show
    """
    seen = views.view(project.find(name))
    if json_:
        print_json(seen)
    else:
        output.tree(out, seen)


@click.command()
@of_lab
@as_json
def env(name: str | None, json_: bool) -> None:
    """Print how to connect to a lab as assignments for the shell.

    MYSQL_HOST, MYSQL_TCP_PORT, MYSQL_USER, MYSQL_PWD, MYSQL_DATABASE and LAB_DSN lead to the node that takes writes,
    LAB_<NODE>_HOST, LAB_<NODE>_PORT and LAB_<NODE>_DSN to each node, as LAB_REPLICA_DSN.

    Example: eval "$(lab env)"
    """
    found = variables(project.find(name))
    if json_:
        print_json(found)
        return
    for key, value in found.items():
        click.echo(f"export {key}={shlex.quote(value)}")


@click.command()
@click.argument("link", required=False, shell_complete=names.completed_by(names.links))
@click.argument("toxic", required=False, shell_complete=names.completed_by(names.toxics))
@click.option("--check", metavar="TOXIC", help="Validate toxics/TOXIC.json and print its description; change nothing.")
@of_lab
@as_json
def toxic(link: str | None, toxic: str | None, check: str | None, name: str | None, json_: bool) -> None:
    """List toxics, or replace the toxics of a LINK; TOXIC none removes them.

    Example: lab toxic source-replica wan-200ms
    """
    if check:
        click.echo(f"{check}: {catalogue.toxic(check).about}")
    elif not link:
        known = [catalogue.toxic(each) for each in catalogue.toxics()]
        print_json({each.name: each.about for each in known}) if json_ else output.toxics(out, known)
    elif not toxic:
        raise LabError(f"no toxic given for {link}", "LINK TOXIC, or LINK none to remove its toxics", "./lab toxic")
    else:
        proof = labs.set_toxic(project.find(name), link, toxic)
        print_json(proof) if json_ else out.print(f"{proof.what}: {proof.found}")
        sys.exit(0 if proof.ok else FAILED)


@click.command()
@as_json
def engines(json_: bool) -> None:
    """List the engines: version, source, features, missing features with the reason, image state.

    Example: lab engines --json
    """
    known = views.engines()
    print_json(known) if json_ else output.engines(out, known)


@click.command()
@as_json
def doctor(json_: bool) -> None:
    """Check prerequisites and leftovers on this host and suggest fixes.

    Example: lab doctor
    """
    findings = examination.examine()
    print_json(findings) if json_ else output.findings(out, findings)
    sys.exit(0 if all(finding.ok for finding in findings) else FAILED)


@click.command()
@click.option("--images", "images_", is_flag=True, help="Also remove the lab's Docker images.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@as_json
def clean(images_: bool, dry_run: bool, json_: bool) -> None:
    """Remove every lab that no running command uses, and the leftovers of killed commands.

    --dry-run does not list what arrays of disks left in /dev, which is found only by removing it.

    Example: lab clean --dry-run
    """
    if dry_run:
        found = labs.removable(images_)
        print_json({"would_remove": found}) if json_ else out.print("\n".join(found) or "nothing to remove")
        return
    gone = labs.clean(images_, tell)
    print_json({"removed": gone}) if json_ else out.print("\n".join(gone) or "nothing to remove")


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]), default="bash")
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    Example: eval "$(./lab completion bash)"
    """
    click.echo(SHELLS[shell](cli, {}, "lab", "_LAB_COMPLETE").source())
