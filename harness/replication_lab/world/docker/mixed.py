"""The Compose file of a lab whose nodes run different servers: what differs from the topology's own file."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue, compose_template
from replication_lab.world.docker import images, servers

ENGINES = catalogue.COMPOSE / "engines"
# Servers have different defaults, so a table would differ on a replica. All versions have these values.
CHARACTERS = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"


def overlay(
    topology: Topology, text: str, compose_file: Path, exchanged: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return what differs from a topology's Compose file: each node's server; an empty text if all run the same.

    `exchanged` are the nodes that have started with another server, each with its host's name, which it keeps: the
    names of relay logs begin with it.
    """
    texts = servers.of_nodes(topology, text)
    if len(set(texts.values())) == 1 and not exchanged:
        return ""
    others_powers = _read(catalogue.COMPOSE / "_parts.yaml")["services"]["server-of-others"]["cap_add"]
    nodes = []
    for node in topology.nodes:
        server = servers.ready(texts[node.name])
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
