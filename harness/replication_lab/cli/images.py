"""The commands for the lab's images: build, save, load, key."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from replication_lab import experiments
from replication_lab.cli import command, help_of, names
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import all_of, as_json
from replication_lab.lab import stock
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import archives
from replication_lab.world.docker import engine as docker_engine

images = click.Group("images", help=help_of("images"))

# What chooses images: engines, and topologies that need more than the usual ones.
of_images = all_of(
    click.argument("engines", nargs=-1, metavar="[ENGINE]…", shell_complete=names.engines),
    click.option("--topology", "topologies", multiple=True, metavar="NAME", shell_complete=names.topologies),
    click.option("--experiment", metavar="NAME", shell_complete=names.completed_by(experiments.names)),
)


def needed(engines: Sequence[str], topologies: Sequence[str], experiment: str | None) -> list[str]:
    """Return the chosen images. An experiment has its own engines unless others are named."""
    if experiment:
        found = experiments.named(experiment)
        engines = engines or [
            found.lab_of(case).engine or each for case in found.cases for each in found.default_engines
        ]
        topologies = [*topologies, *dict.fromkeys(found.lab_of(case).topology for case in found.cases)]
    return stock.needed([*dict.fromkeys(engines)], topologies)


@command("images build", images)
@of_images
@click.option("--push", metavar="PREFIX")
@as_json
def build(
    engines: Sequence[str], topologies: Sequence[str], experiment: str | None, push: str | None, json_: bool
) -> None:
    done = stock.build(needed(engines, topologies, experiment), push or "")
    print_json(done) if json_ else out.print("\n".join(done))


@command("images save", images)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@of_images
@as_json
def save(folder: Path, engines: Sequence[str], topologies: Sequence[str], experiment: str | None, json_: bool) -> None:
    saved = stock.save(folder, needed(engines, topologies, experiment))
    print_json(saved) if json_ else out.print("\n".join([*saved.archives, saved.listing, f"SHA-256 {saved.sha256}"]))


@command("images load", images)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--sha256", metavar="HEX", callback=lambda _context, _option, given: sha256_of(given))
@as_json
def load(folder: Path, sha256: str, json_: bool) -> None:
    docker_engine.ensure()
    loaded = archives.load(folder, tell, sha256)
    print_json(loaded) if json_ else out.print("\n".join(loaded) or "no image was loaded: no archive is current")


def sha256_of(given: str | None) -> str:
    """Return a digest as it was given, or an empty text; LabError if it is none."""
    if given is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
        raise LabError(f"--sha256 is {given!r}", "64 hexadecimal digits, as `lab images save` prints them last")
    return given or ""


@command("images key", images)
@of_images
@as_json
def key(engines: Sequence[str], topologies: Sequence[str], experiment: str | None, json_: bool) -> None:
    found = archives.key(needed(engines, topologies, experiment))
    print_json({"key": found}) if json_ else click.echo(found)
