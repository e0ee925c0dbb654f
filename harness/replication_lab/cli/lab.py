"""The commands for a lab as a whole: up, down, status, env, toxic, doctor and so on."""

import shlex
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from replication_lab.cli import cli, command, console, names, options, output
from replication_lab.cli.console import leave_by, out, print_json, tell
from replication_lab.cli.files import cnf_files, pairs
from replication_lab.lab import doctor as examination
from replication_lab.lab import down as removal
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.lab.connections import variables
from replication_lab.lab.endpoints import endpoint_of
from replication_lab.lab.managers import manager_of
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.lab.companion import settings_apart
from replication_lab.model.lab.condition import parse_links
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.manager import MANAGER
from replication_lab.model.question.server_options import options_by_node
from replication_lab.world import catalogue, given_texts
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import project

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@command("up")
@click.argument("topology", default="semisync", shell_complete=names.topologies)
@options.of_servers
@click.option("--replicas", type=int, metavar="N")
@click.option("--relays", type=int, metavar="N")
@click.option("--lab", "name", metavar="NAME")
@click.option("--toxic", "toxics", multiple=True, metavar="LINK=CONDITION")
@options.of_sites
@options.of_companions
@click.option("--storage", multiple=True, metavar="[NODE=]LEVEL[:DISKS]")
@options.of_disks
@click.option("--set", "settings", multiple=True, metavar="[NODE.]NAME=VALUE")
@options.of_cnf
@click.option("--init", multiple=True, type=click.Path(), metavar="FILE")
@options.as_json
def up(
    *,
    topology: str,
    engine: tuple[str, ...],
    image: tuple[str, ...],
    replicas: int | None,
    relays: int | None,
    name: str | None,
    toxics: tuple[str, ...],
    sites: tuple[str, ...],
    site_addresses: tuple[str, ...],
    site_network: str | None,
    endpoint: str | None,
    manager: str | None,
    storage: tuple[str, ...],
    init: tuple[str, ...],
    json_: bool,
    **others: Any,
) -> None:
    topology = catalogue.resized(topology, replicas, relays)
    settings, of_endpoint = settings_apart(pairs("--set", others.pop("settings")), ENDPOINT)
    settings, of_manager = settings_apart(settings, MANAGER)
    cnf = cnf_files(others.pop("cnf"))
    given = [f"--{each}" for each in others if options.is_given(each)]
    placed = labs.storage_of(topology, storage, given, **others)
    found = catalogue.topology(topology)
    changed = {link: labs.known_toxic(asked).name for link, asked in parse_links(toxics, "--toxic").items()}
    server = options.server_of(topology, engine, image)
    started_with = options_by_node(settings, cnf, [node.name for node in found.nodes])
    run_first = tuple(given_texts.read(Path(file)) for file in init)
    address = options.address_of(found, sites, site_addresses)
    in_front = endpoint_of(found, endpoint or "", of_endpoint)
    asked = LabRequest(
        *(found, server, name or f"lab-{topology}", changed, placed),
        options=started_with,
        init=run_first,
        endpoint=in_front,
        manager=manager_of(found, server, manager or "", of_manager),
        sites=options.sites_of(found, sites, () if address else site_addresses, site_network),
        address=address,
    )
    lab = labs.up(asked, tell)
    print_json(views.view(lab)) if json_ else output.how_to_connect(out, lab, asked.wanted_toxics)


@command("down")
@options.of_lab
@click.option("--forget-site", "forget", multiple=True, metavar="SITE")
@options.of_yes
@options.as_json
def down(name: str | None, forget: tuple[str, ...], yes: bool, json_: bool) -> None:
    def agreed(lab: str) -> None:
        if not yes:
            again = " ".join([f"./lab down --lab {lab}", *(f"--forget-site {site}" for site in forget)])
            console.ask(f"Stop {lab} and delete its data?", f"{lab} would be stopped and its data deleted", again)

    gone = removal.down(name, tell, agreed, forget)
    if json_:
        print_json({"down": gone})


@command("status")
@options.of_lab
@options.as_json
def status(name: str | None, json_: bool) -> None:
    docker_engine.client()
    chosen = [project.find(name)] if name else list(project.all_labs().values())
    seen = [views.view(lab) for lab in chosen]
    print_json(seen) if json_ else output.labs(out, seen)


@command("env")
@options.of_lab
@options.as_json
def env(name: str | None, json_: bool) -> None:
    found = variables(project.find(name))
    if json_:
        print_json(found)
        return
    for key, value in found.items():
        click.echo(f"export {key}={shlex.quote(value)}")


@command("toxic")
@click.option("--check", metavar="CONDITION")
@options.as_json
def toxic(check: str | None, json_: bool) -> None:
    if check:
        click.echo(f"{check}: {catalogue.toxic(check).about}")
        return
    from replication_lab.cli import listing  # only here: it imports experiments and drills

    listing.show(listing.TOXICS, json_)


@command("doctor")
@options.as_json
@click.option("--undo", is_flag=True)
def doctor(json_: bool, undo: bool) -> None:
    if undo:
        done = examination.undo(tell)
        removed = ", ".join(done.removed) or "nothing"
        print_json(done) if json_ else out.print(f"removed from apt's configuration: {removed}", markup=False)
        return
    findings = examination.examine()
    print_json(findings) if json_ else output.findings(out, findings)
    leave_by(findings, ExitCode.FINDING)


@command("clean")
@click.argument("labs_", metavar="[NAME…]", nargs=-1, shell_complete=names.labs)
@click.option("--images", "images_", is_flag=True)
@click.option("--dry-run", is_flag=True)
@options.of_yes
@options.as_json
def clean(labs_: tuple[str, ...], images_: bool, dry_run: bool, yes: bool, json_: bool) -> None:
    found = removal.removable(images_, labs_)
    if dry_run:
        print_json({"would_remove": found}) if json_ else out.print("\n".join(found) or "nothing to remove")
        return
    if found and not yes:
        tell("\n".join(["would be removed:", *(f"  {each}" for each in found)]))
        console.ask("Remove all of this?", "this would be removed", " ".join(["./lab clean", *labs_]))
    gone = removal.clean(images_, tell, found)
    print_json({"removed": gone}) if json_ else out.print("\n".join(gone) or "nothing to remove")


@command("completion")
@click.argument("shell", type=click.Choice([*SHELLS]), default="bash")
def completion(shell: str) -> None:
    click.echo(SHELLS[shell](cli, {}, "lab", "_LAB_COMPLETE").source())
