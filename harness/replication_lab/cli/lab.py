"""The commands for a lab as a whole: up, down, status, env, toxic, doctor and so on."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from replication_lab.cli import FAILED, cli, names, output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.files import cnf_files, pairs
from replication_lab.cli.options import as_json, of_cnf, of_disks, of_engine, of_image, of_lab, server_of
from replication_lab.lab import doctor as examination
from replication_lab.lab import down as removal
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.lab.connections import variables
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.condition import parse_links
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.question.server_options import options_by_node
from replication_lab.world import catalogue, given_texts, installing
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import project

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("topology", default="semisync", shell_complete=names.completed_by(catalogue.topologies))
@of_engine
@of_image
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
    metavar="LINK=CONDITION",
    help="Put CONDITION on LINK instead of the topology's default; may be repeated. In numbers (40ms, 40ms±5ms, "
    "100mbit, 40ms+20mbit, loss=2%, duplicate=1%, reorder=5%) or by name; `lab toxic` lists the names. A rate is "
    "shared by all connections.",
)
@click.option(
    "--storage",
    multiple=True,
    metavar="[NODE=]LEVEL[:DISKS]",
    help="Put the data of NODE, or of all replicas, on emulated disks: single, raid0, raid1, or raid0:3 for three; may "
    "be repeated.  "
    "[default: no emulated disks]",
)
@of_disks
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[NODE.]NAME=VALUE",
    help="Start NODE, or all nodes, with this value of a server's variable; may be repeated.",
)
@of_cnf
@click.option(
    "--init",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Run a .sql or .sql.gz file at the first start, where clients write; may be repeated. If a statement fails, "
    "the lab is removed.",
)
@as_json
def up(
    *,
    topology: str,
    engine: tuple[str, ...],
    image: tuple[str, ...],
    name: str | None,
    toxics: tuple[str, ...],
    storage: tuple[str, ...],
    init: tuple[str, ...],
    json_: bool,
    **others: Any,
) -> None:
    """Start a topology, verify it, and print connection details.

    `lab list` shows the topologies, engines, toxics and disks.

    Example: lab up semisync --engine mysql-8.0 --toxic source-replica=40ms

    Example: lab up async --engine source=mysql-8.0 --engine replica=mysql

    Example: lab up semisync --image registry.example/mysql:8.4

    Example: lab up async --storage raid0 --disk sata-7200

    Example: lab up semisync --set replica.sync_binlog=0 --cnf my.cnf

    Example: lab up semisync --init shop.sql.gz
    """
    source = click.get_current_context().get_parameter_source
    settings, cnf = pairs("--set", others.pop("settings")), cnf_files(others.pop("cnf"))
    given = [f"--{each}" for each in others if source(each) is ParameterSource.COMMANDLINE]
    placed = labs.storage_of(topology, storage, given, **others)
    found, changed = catalogue.topology(topology), parse_links(toxics, "--toxic")
    server = server_of(topology, engine, image)
    options = options_by_node(settings, cnf, [node.name for node in found.nodes])
    run_first = tuple(given_texts.read(Path(file)) for file in init)
    asked = LabRequest(found, server, name or f"lab-{topology}", changed, placed, options=options, init=run_first)
    lab = labs.up(asked, tell)
    if json_:
        print_json(views.view(lab))
    else:
        output.how_to_connect(out, lab, asked.wanted_toxics)


@click.command()
@of_lab
@as_json
def down(name: str | None, json_: bool) -> None:
    """Stop a lab and delete its data; --lab is optional if only one lab of this checkout is running.

    Example: lab down --lab lab-semisync
    """
    gone = removal.down(name, tell)
    if json_:
        print_json({"down": gone})


@click.command()
@of_lab
@as_json
def status(name: str | None, json_: bool) -> None:
    """Show the running labs, each as a tree: nodes, roles, links, toxics, replication.

    Example: lab status --lab lab-semisync
    """
    docker_engine.client()
    chosen = [project.find(name)] if name else list(project.all_labs().values())
    seen = [views.view(lab) for lab in chosen]
    if json_:
        print_json(seen)
    else:
        output.labs(out, seen)


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
@click.argument("toxic", required=False, metavar="[CONDITION]", shell_complete=names.completed_by(names.toxics))
@click.argument("more", nargs=-1, metavar="")
@click.option("--check", metavar="CONDITION", help="Validate a condition and print what it does; change nothing.")
@of_lab
@as_json
def toxic(
    *, link: str | None, toxic: str | None, more: tuple[str, ...], check: str | None, name: str | None, json_: bool
) -> None:
    """List toxics, or replace the toxics of a LINK; CONDITION none removes them.

    A condition is the name of a toxic or is written in numbers: 40ms, 40ms±5ms (or 40ms+-5ms),
    40ms↓10ms↑30ms (or 40ms,down=10ms,up=30ms), 100mbit, 40ms+20mbit, loss=2% (or
    loss=2%,down), duplicate=1%, reorder=5%. A rate is that of the link, in each direction:
    all of its connections share it. The last three are shares of the packets between the
    node and the proxy.

    Several links: lab toxic LINK=CONDITION LINK=CONDITION

    Example: lab toxic source-replica 40ms±5ms
    """
    if check:
        click.echo(f"{check}: {catalogue.toxic(check).about}")
    elif link and "=" in link:
        asked = parse_links([link, *filter(None, [toxic]), *more])
        _put_toxics(asked, name, json_)
    elif more:
        raise LabError(
            f"unexpected {' '.join(more)} after {link} {toxic}",
            "LINK CONDITION, or LINK=CONDITION for each of several links",
            "./lab toxic",
        )
    elif not link:
        from replication_lab.cli import listing  # only here: it imports experiments and drills

        listing.show(listing.TOXICS, json_)
    elif not toxic:
        raise LabError(f"no toxic given for {link}", "LINK CONDITION, or LINK none to remove its toxics", "./lab toxic")
    else:
        _put_toxics({link: toxic}, name, json_)


def _put_toxics(asked: dict[str, str], lab: str | None, json_: bool) -> None:
    for each in asked.values():
        labs.known_toxic(each)
    with labs.changing(lab, "lab toxic") as found:
        proofs = labs.set_toxics(found, asked)
    if json_:
        print_json(proofs if len(proofs) > 1 else proofs[0])
    else:
        for proof in proofs:
            out.print(f"{proof.what}: {proof.found}")
    sys.exit(0 if all(proof.ok for proof in proofs) else FAILED)


@click.command()
@as_json
@click.option("--undo", is_flag=True, help="Remove what the lab added to apt (LAB_INSTALL), and list what stays.")
def doctor(json_: bool, undo: bool) -> None:
    """Check prerequisites and leftovers on this host and suggest fixes.

    Example: lab doctor
    """
    if undo:
        done = examination.undo(tell)
        removed = ", ".join(done.removed) or "nothing"
        print_json(done) if json_ else out.print(f"removed from apt's configuration: {removed}", markup=False)
        return
    findings = examination.examine()
    print_json(findings) if json_ else output.findings(out, findings)
    sys.exit(0 if all(finding.ok for finding in findings) else FAILED)


@click.command()
@click.argument("labs_", metavar="[NAME…]", nargs=-1, shell_complete=names.completed_by(names.labs))
@click.option("--images", "images_", is_flag=True, help="Also remove the lab's Docker images.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@as_json
def clean(labs_: tuple[str, ...], images_: bool, dry_run: bool, yes: bool, json_: bool) -> None:
    """Remove this checkout's labs that no running command uses, and the leftovers of killed commands.

    With NAME, remove only these labs. On a terminal, show what would be removed, and ask first.

    Labs of other checkouts, machines and users, and labs started with Compose directly, are only listed. To remove
    one: `lab down --lab NAME`.

    Example: lab clean --dry-run
    """
    found = removal.removable(images_, labs_)
    if dry_run:
        print_json({"would_remove": found}) if json_ else out.print("\n".join(found) or "nothing to remove")
        return
    if found and not yes:
        tell("\n".join(["would be removed:", *(f"  {each}" for each in found)]))
        if not installing.confirmed():
            raise LabError("nothing was removed", "Enter to confirm, or --yes", "./lab clean --dry-run")
    gone = removal.clean(images_, tell, found)
    print_json({"removed": gone}) if json_ else out.print("\n".join(gone) or "nothing to remove")


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]), default="bash")
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    Example: eval "$(./lab completion bash)"
    """
    click.echo(SHELLS[shell](cli, {}, "lab", "_LAB_COMPLETE").source())
