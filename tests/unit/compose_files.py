"""The Compose files of the topologies, read as Compose reads them."""

import functools
import re

import yaml
from replication_lab.model.lab.topology import LOADER
from replication_lab.world import catalogue

COMPOSE = catalogue.COMPOSE


class Loader(LOADER):  # type: ignore[valid-type]  # which class it is depends on whether YAML's C library is there
    """YAML as Compose reads it, with its own tags for overriding lists."""


for tag in ("!override", "!reset"):
    Loader.add_constructor(tag, lambda loader, node: loader.construct_sequence(node))


@functools.cache
def read(path) -> dict:
    return yaml.load(path.read_text(), Loader)


def resolved(file: dict, service: str, folder=COMPOSE) -> dict:
    """Return a service with what it extends underneath, the default engine's images throughout."""
    here = file["services"][service]
    extends = here.get("extends")
    if not extends:
        return here
    below = read(folder / extends["file"]) if "file" in extends else file
    # ${NAME:-default} is the default, and ${NAME:+other} nothing, where no variable is set.
    name = re.sub(r"\$\{\w+:(?:-(.*?)|\+.*?)\}", r"\1", extends["service"])
    return {**resolved(below, name, folder), **here}


def all_mounts(file: dict, service: str) -> list[str]:
    """Return the volumes of a service and of what it extends; Compose joins such lists."""
    here = file["services"][service]
    below = resolved(read(COMPOSE / here["extends"]["file"]), here["extends"]["service"]) if "extends" in here else {}
    return [*here.get("volumes", []), *below.get("volumes", [])]


def services():
    """Return (topology, service) of all."""
    return [
        (name, service) for name in catalogue.topologies() for service in read(COMPOSE / f"{name}.yaml")["services"]
    ]
