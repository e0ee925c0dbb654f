"""The commands for the engines of several sites: join, leave."""

import click

from replication_lab.cli import command, console, help_of, options
from replication_lab.cli.console import print_json, tell
from replication_lab.cli.files import pairs
from replication_lab.cli.options import as_json, of_yes
from replication_lab.model.lab.site import Site
from replication_lab.world.docker import engine, swarm

sites = click.Group("sites", help=help_of("sites"))


@command("sites join", sites)
@click.argument("machines", nargs=-1, required=True, metavar="ENGINE=ADDRESS…")
@of_yes
@as_json
def join(machines: tuple[str, ...], yes: bool, json_: bool) -> None:
    engine.client()
    addresses = pairs("ENGINE=ADDRESS", machines, "here=10.1.0.1")
    found = {options.endpoints_of(text)[0]: address for text, address in addresses.items()}
    shown = ", ".join(f"{Site(endpoint)} ({address})" for endpoint, address in found.items())
    _agree(f"a swarm would be made of {shown}", "join", machines, yes)
    swarm.join(found)
    undo = f"./lab sites leave {' '.join(addresses)}"
    print_json({"joined": found}) if json_ else tell(f"one swarm: {shown}; to undo it: {undo}")


@command("sites leave", sites)
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE…")
@of_yes
@as_json
def leave(engines: tuple[str, ...], yes: bool, json_: bool) -> None:
    engine.client()
    found = options.endpoints_of(",".join(engines))
    shown = ", ".join(str(Site(endpoint)) for endpoint in found)
    _agree(f"{shown} would leave their swarm", "leave", engines, yes)
    swarm.leave(found)
    print_json({"left": found}) if json_ else tell(f"no longer in a swarm: {shown}")


def _agree(what: str, words: str, given: tuple[str, ...], yes: bool) -> None:
    if not yes:
        console.ask(f"{what}. Continue?", what, f"./lab sites {words} {' '.join(given)}")
