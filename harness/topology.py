"""Topologies: nodes and links, read from the Compose files themselves so that there is one place to change them."""

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from harness.errors import LabError, unknown_name

REPLICATION = ("async", "semisync")
# The same safe reader in C where PyYAML has it: commands read topologies before they do anything.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Node:
    """A database server. Its role follows from the links: source, relay (both ends) or replica."""

    name: str
    role: str


@dataclass(frozen=True)
class Link:
    """One direction between two nodes that crosses Toxiproxy; the fields are those of the Toxiproxy proxy entry."""

    name: str
    listen: str
    upstream: str
    source: str
    target: str

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True)
class Topology:
    """A Compose file as the harness sees it."""

    name: str
    about: str
    replication: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    toxics: dict[str, str] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise unknown_name(f"node of {self.name}", name, [node.name for node in self.nodes])

    def link(self, name: str) -> Link:
        for link in self.links:
            if link.name == name:
                return link
        raise unknown_name(f"link of {self.name}", name, [link.name for link in self.links])

    def links_from(self, node: str) -> tuple[Link, ...]:
        """The links that carry what `node` writes to its replicas."""
        return tuple(link for link in self.links if link.source == node)

    @property
    def source(self) -> Node:
        return next(node for node in self.nodes if node.role == "source")


class _Lab(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    replication: str
    toxics: dict[str, str] = {}


def parse_topology(name: str, text: str) -> Topology:
    """A Topology from the text of compose/NAME.yaml; LabError says which key or value does not fit."""
    file = f"compose/{name}.yaml"
    document = _mapping(file, text)
    lab = _lab(file, document)
    links = _links(file, document)
    nodes = _nodes(document, links)
    topology = Topology(name, lab.about, lab.replication, nodes, links, lab.toxics)
    for link in lab.toxics:
        topology.link(link)
    return topology


def _mapping(file: str, text: str) -> dict[str, Any]:
    try:
        document = yaml.load(text, LOADER)
    except yaml.YAMLError as error:
        raise LabError(f"{file} is not YAML: {error}", "a Compose file", f"docker compose -f {file} config") from error
    if not isinstance(document, dict) or "services" not in document:
        raise LabError(f"{file} has no services", "a Compose file", f"docker compose -f {file} config")
    return document


def _lab(file: str, document: dict[str, Any]) -> _Lab:
    if "x-lab" not in document:
        raise LabError(
            f"{file} has no x-lab", "x-lab with about, replication and toxics", "compare with compose/async.yaml"
        )
    try:
        lab = msgspec.convert(document["x-lab"], _Lab)
    except msgspec.ValidationError as error:
        raise LabError(f"{file}: x-lab: {error}", "the keys about, replication, toxics") from error
    if lab.replication not in REPLICATION:
        raise unknown_name(f"replication in {file}: x-lab", lab.replication, REPLICATION)
    return lab


def _links(file: str, document: dict[str, Any]) -> tuple[Link, ...]:
    content = document.get("configs", {}).get("links", {}).get("content")
    try:
        entries = json.loads(content) if content else []
    except ValueError as error:
        raise LabError(f"{file}: configs.links is not JSON: {error}", "Toxiproxy's list of proxies") from error
    if not entries:
        raise LabError(
            f"{file} has no links", "configs.links with Toxiproxy's list of proxies", "compare with compose/async.yaml"
        )
    return tuple(_link(file, entry, document["services"]) for entry in entries)


def _link(file: str, entry: dict[str, str], services: dict[str, Any]) -> Link:
    name = entry.get("name", "")
    for source in services:
        target = name.removeprefix(f"{source}-")
        if target != name and target in services:
            return Link(name, entry["listen"], entry["upstream"], source, target)
    raise LabError(f"{file}: the link {name!r} names no two nodes", "FROM-TO, both of them services of the file")


def _nodes(document: dict[str, Any], links: tuple[Link, ...]) -> tuple[Node, ...]:
    sources, targets = {link.source for link in links}, {link.target for link in links}
    return tuple(
        Node(name, "relay" if name in sources & targets else "source" if name in sources else "replica")
        for name in document["services"]
        if name in sources | targets
    )
