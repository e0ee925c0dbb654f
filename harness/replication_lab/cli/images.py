"""The commands for the lab's images: build, save, load, key."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from replication_lab import experiments
from replication_lab.cli import names
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import all_of, as_json
from replication_lab.lab import stock
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world.docker import archives
from replication_lab.world.docker import engine as docker_engine


@click.group()
def images() -> None:
    """Build the lab's images, and keep them for other machines: build, save, load, key.

    If LAB_IMAGES is a prefix such as registry.example/team/lab, images are pulled from that registry where it has one
    of the current recipe, and built here otherwise.

    Example: lab images save .lab-images mariadb
    """


# What chooses images: engines, and topologies that need more than the usual ones.
of_images = all_of(
    click.argument("engines", nargs=-1, metavar="[ENGINE]…", shell_complete=names.completed_by(names.engines)),
    click.option(
        "--topology",
        "topologies",
        multiple=True,
        metavar="NAME",
        shell_complete=names.completed_by(catalogue.topologies),
        help="Topology whose additional images are needed, such as the sidecar of galera; may be repeated.",
    ),
    click.option(
        "--experiment",
        metavar="NAME",
        shell_complete=names.completed_by(experiments.names),
        help="Experiment, or file of a question, whose topologies and engines are needed.",
    ),
)


def needed(engines: Sequence[str], topologies: Sequence[str], experiment: str | None) -> list[str]:
    """Return the chosen images. An experiment has its own engines unless others are named."""
    if experiment:
        is_file = experiment.endswith((".yaml", ".yml"))
        found = experiments.from_file(experiment) if is_file else experiments.load(experiment)
        engines = engines or [
            found.lab_of(case).engine or each for case in found.cases for each in found.default_engines
        ]
        topologies = [*topologies, *dict.fromkeys(found.lab_of(case).topology for case in found.cases)]
    return stock.needed([*dict.fromkeys(engines)], topologies)


@images.command("build")
@of_images
@click.option("--push", metavar="PREFIX", help="Also push the images to a registry, as PREFIX/NAME:RECIPE-PROCESSOR.")
@as_json
def build(
    engines: Sequence[str], topologies: Sequence[str], experiment: str | None, push: str | None, json_: bool
) -> None:
    """Build the images that are missing or out of date: those of ENGINE (mariadb), Toxiproxy and the load.

    With --push, other machines pull them from there if LAB_IMAGES=PREFIX. `docker login` gives access to the registry.
    The printed lines end with the digests of the images. If LAB_IMAGES_DIGESTS is a file with these lines, other images
    are not pulled.

    Example: lab images build mariadb mysql-8.0 --push registry.example/team/lab
    """
    done = stock.build(needed(engines, topologies, experiment), push or "")
    print_json(done) if json_ else out.print("\n".join(done))


@images.command("save")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@of_images
@as_json
def save(folder: Path, engines: Sequence[str], topologies: Sequence[str], experiment: str | None, json_: bool) -> None:
    """Write archives of the images into DIR, for the cache of a pipeline; build missing images.

    They are the images of ENGINE (mariadb), Toxiproxy and the load. An existing archive is kept if it holds the same
    image as this engine. The list images.json has the digests of all archives. Its own SHA-256 is printed last: keep
    it where only you can write, for `lab images load --sha256`.

    Example: lab images save .lab-images mariadb
    """
    saved = stock.save(folder, needed(engines, topologies, experiment))
    print_json(saved) if json_ else out.print("\n".join([*saved.archives, saved.listing, f"SHA-256 {saved.sha256}"]))


@images.command("load")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--sha256",
    metavar="HEX",
    callback=lambda _context, _option, given: sha256_of(given),
    help="SHA-256 that `lab images save` printed; nothing is loaded if an archive has changed since.",
)
@as_json
def load(folder: Path, sha256: str, json_: bool) -> None:
    """Load the archives in DIR that are current, and name the archives that are not.

    An archive is current if its image was built from this checkout's recipe, for this processor. Other images are built
    when they are first needed. An archive that names another image than its own is not loaded. Without --sha256 the
    content of an image is not verified: any user with write access to DIR decides what runs in the labs.

    Example: lab images load .lab-images --sha256 HEX
    """
    docker_engine.ensure()
    loaded = archives.load(folder, tell, sha256)
    print_json(loaded) if json_ else out.print("\n".join(loaded) or "no image was loaded: no archive is current")


def sha256_of(given: str | None) -> str:
    """Return a digest as it was given, or an empty text; LabError if it is none."""
    if given is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
        raise LabError(f"--sha256 is {given!r}", "64 hexadecimal digits, as `lab images save` prints them last")
    return given or ""


@images.command("key")
@of_images
@as_json
def key(engines: Sequence[str], topologies: Sequence[str], experiment: str | None, json_: bool) -> None:
    """Print a cache key for the images of ENGINE (mariadb), Toxiproxy and the load, without Docker.

    It changes with every file that the images are built from, and with the machine's processor.

    Example: lab images key mariadb
    """
    found = archives.key(needed(engines, topologies, experiment))
    print_json({"key": found}) if json_ else click.echo(found)
