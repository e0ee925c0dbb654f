"""The servers that a lab is to run: their images made ready, which server an image has, and nodes that differ."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.server_name import FORMS, ServerName, by_node, parse_server, text_of_nodes
from replication_lab.model.lab.server_version import Version, parse_version
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue, compose_template
from replication_lab.world.docker import images, machine
from replication_lab.world.mysql.dialects import dialect_of, dialects

ASK_VERSION = "mariadbd --version 2>/dev/null || mysqld --version"
ENGINES = catalogue.COMPOSE / "engines"
# Servers have different defaults, so a table would differ on a replica. All versions have these values.
CHARACTERS = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"


def of_nodes(topology: Topology, text: str) -> dict[str, str]:
    """Return the text of each node's server; LabError for a node that is not in the topology."""
    return by_node(text, [node.name for node in topology.nodes], catalogue.default_engine(topology.name))


def named(text: str) -> ServerName:
    """Return the server that a text names; LabError for an unknown engine. A vendor's engine has the vendor's image."""
    asked = parse_server(text)
    if not asked.engine:
        return asked
    try:
        known = catalogue.engine(asked.engine)
    except LabError as error:
        raise LabError(error.found, FORMS, error.next_step) from error
    return asked if asked.image else replace(asked, image=known.image)


def shown(topology: Topology, text: str) -> str:
    """Return the words that show a lab's servers: the engine of each, or its image if that is not the engine's own."""
    asked = {node: named(each) for node, each in of_nodes(topology, text).items()}
    return text_of_nodes({node: each.image or each.engine for node, each in asked.items()})


def own_images(texts: Iterable[str]) -> list[str]:
    """Return the images of images/ that servers need; none for a server from an image of others."""
    asked = map(named, dict.fromkeys(texts))
    return [each.engine for each in asked if not each.image]


def others_images(topology: Topology, text: str) -> list[str]:
    """Return the images of others that a lab's nodes run."""
    asked = map(named, dict.fromkeys(of_nodes(topology, text).values()))
    return [each.image for each in asked if each.image]


def image_of(text: str) -> str:
    """Return the image that a server runs from."""
    asked = ready(text)
    return asked.image or images.PREFIX + asked.engine


@cache
def ready(text: str) -> ServerName:
    """Return the server with its engine known.

    For an image of others: pull it if it is missing, and read the server's version from it. Raise LabError if the
    image is not available, or is not of the requested engine.
    """
    asked = named(text)
    if not asked.image:
        return asked
    images.have(asked.image)
    try:
        version = version_of(asked.image)
    except LabError as error:
        if asked.engine:
            # The running server is asked again.
            return asked
        raise LabError(
            f"the server in image {asked.image} cannot be identified: {error.found}",
            "--engine with the engine in the image, such as mysql or mariadb",
            f"--image {asked.image} --engine mariadb",
        ) from error
    told, found = catalogue.engine(asked.engine).dialect if asked.engine else "", dialect_of(version)
    if told and told != found:
        raise LabError(
            f"image {asked.image} has {version}, which is not {asked.engine}",
            f"--engine {found}, or no --engine: the lab detects it from the image",
            f"--image {asked.image}",
        )
    return replace(asked, engine=asked.engine or found)


def make_ready(topology: Topology, text: str) -> None:
    """Prepare the images of a lab's servers, as `ready` does; LabError also if one cannot replicate in this way."""
    for each in dict.fromkeys(of_nodes(topology, text).values()):
        if why := foreign(each):
            raise LabError(
                why, f"an engine for {machine.facts().processor}, or a vendor's image of it", "./lab list engines"
            )
        _refuse_misfit(topology, ready(each))


def foreign(text: str) -> str:
    """Return why a server's image cannot be built for the Docker engine's processor; empty if it can."""
    asked = named(text)
    known = catalogue.engine(asked.engine) if asked.engine and not asked.image else None
    if known is None or not known.processors or (own := machine.facts().processor) in known.processors:
        return ""
    return f"{asked.engine} has programs for {' and '.join(known.processors)} only, and the processor is {own}"


def _refuse_misfit(topology: Topology, found: ServerName) -> None:
    able = {_family(name) for name in catalogue.engines_for(topology)}
    # An engine with a vendor's image says itself what that lacks.
    known = catalogue.engine(found.engine)
    lacks = bool(known.image) and topology.replication in known.lacks
    if found.image and (lacks or _family(found.engine) not in able):
        raise LabError(
            f"image {found.image} is {found.engine}, which has no {topology.replication}; {topology.name} needs it",
            f"an image of {' or '.join(sorted(able))}",
            "./lab list engines",
        )


def _family(engine_name: str) -> str:
    return dialects()[catalogue.engine(engine_name).dialect].family


def version_of(image: str) -> Version:
    """Return the version that the server program in an image reports."""
    status, said = images.said_by(image, ASK_VERSION)
    if status:
        raise LabError(f"`{ASK_VERSION}` failed in it: {said.strip()}")
    return parse_version(said)


# --- nodes that run different servers ---------------------------------------------------------------------------------


def overlay(
    topology: Topology, text: str, compose_file: Path, exchanged: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return what differs from a topology's Compose file: each node's server; an empty text if all run the same.

    `exchanged` are the nodes that have started with another server, each with its host's name, which it keeps: the
    names of relay logs begin with it.
    """
    texts = of_nodes(topology, text)
    if len(set(texts.values())) == 1 and not exchanged:
        return ""
    others_powers = _read(catalogue.COMPOSE / "_parts.yaml")["services"]["server-of-others"]["cap_add"]
    nodes = []
    for node in topology.nodes:
        server = ready(texts[node.name])
        nodes.append(
            {
                "name": node.name,
                "engine": server.engine,
                "image": server.image or images.PREFIX + server.engine,
                "replicates": node.name in topology.sources,
                "hostname": exchanged.get(node.name, ""),
                "cap_add": others_powers if server.image else [],
                "configs": _included(ENGINES / f"{server.engine}.yaml"),
            }
        )
    return compose_template.filled(ENGINES / "nodes.yaml.j2", topology=compose_file, nodes=nodes)


def _included(file: Path) -> dict[str, dict[str, str]]:
    """Return the configs of a Compose file and of what it includes, with the paths of files in full."""
    read = _read(file)
    found: dict[str, dict[str, str]] = {}
    for other in read.get("include", []):
        found |= _included(file.parent / other)
    for name, config in read.get("configs", {}).items():
        full = {"file": str((file.parent / config["file"]).resolve())} if "file" in config else {}
        found[name] = config | full
    return found


def _read(file: Path) -> dict[str, Any]:
    return msgspec.yaml.decode(file.read_bytes())
