"""Topologies: nodes and links, read from the Compose files themselves so that there is one place to change them."""

import json
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import msgspec
import yaml

from replication_lab.model.core.errors import LabError, as_lab_error, unknown_name
from replication_lab.model.lab.storage import Storage

# The replication of a topology whose server has no copy.
NO_REPLICATION = "none"
# Further ports of a link, by the suffixes of their proxies' names. Behind the last two a server answers: a database
# server, or an echo server if no database runs at the far end.
SQL, ECHO = "-sql", "-echo"
# If two nodes connect to each other, the port that the link's target connects to: its streams are reversed.
BACK = "-back"
CHANNELS = ("ist", "sst", "back", "sql", "echo")
# Two nodes may have a second link, of another kind: that of a cluster's membership is FROM-TO-ring.
RING = "-ring"
# The settings by which the services of a file name each other: the peer of a DRBD resource, all nodes of a group.
PEER, MEMBERS = "LAB_PEER", "LAB_MEMBERS"
# The setting of a service that has a vote in a cluster, and no data: the nodes that it votes with.
ARBITRATES = "LAB_ARBITRATES"
# Ports of links that are not in the Compose file: 22000 + 100 × source + target, by their places in the topology.
FIRST_FURTHER_PORT = 22_000
# The number of machines of a DRBD resource.
PAIR = 2
# Where a lab's ports are published on 127.0.0.1. Docker chooses ports for other programs from 32768 on, and gives up
# after ten in a row that are taken at any address.
HOST_PORTS = "23000-29999"
# The roles of nodes of which none is above another, as a source is above its replicas.
EQUAL_ROLES = frozenset({"member", "peer"})
# PyYAML's safe loader in C if it is available, for speed: every command reads topologies first.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class TopologyNode:
    """A database server; its role follows from the links: source, relay (both ends) or replica; in a cluster, member.

    With DRBD it is a machine, a peer: the server runs on one of the two, and on which one changes.
    """

    name: str
    role: str


@dataclass(frozen=True)
class Link:
    """One direction between two nodes that crosses Toxiproxy; the fields are those of the Toxiproxy proxy entry.

    If nodes use several ports there is an entry FROM-TO-CHANNEL for each; a toxic on the link applies to all of its
    `proxies`. `listen` and `upstream` are those of the entry behind which a server answers.
    """

    name: str
    listen: str
    upstream: str
    source: str
    target: str
    proxies: tuple[str, ...]

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def server(self) -> str:
        """The node that answers at the far end."""
        return self.upstream.rpartition(":")[0]

    @property
    def dialler(self) -> str:
        """The end that opens the connections."""
        return self.source if self.server == self.target else self.target

    @property
    def joins_guests(self) -> bool:
        """Whether it joins two virtual machines that dial each other: those of a replicated disk."""
        return any(name.endswith(BACK) for name in self.proxies)

    @property
    def echoes(self) -> bool:
        """Whether an echo server answers there, not a database server."""
        return any(name.endswith(ECHO) for name in self.proxies)


@dataclass(frozen=True)
class Topology:
    """A Compose file as the harness sees it."""

    name: str
    about: str
    replication: str
    nodes: tuple[TopologyNode, ...]
    links: tuple[Link, ...]
    toxics: dict[str, str] = field(default_factory=dict)
    storage: dict[str, Storage] = field(default_factory=dict)
    manager: str = ""
    # The proxy that clients use if no other is asked for.
    endpoint: str = ""
    # The services that vote in a cluster without having its data.
    arbitrators: tuple[str, ...] = ()
    # The replicas that connect to their source directly, with the source; an attached project can have some.
    follows: dict[str, str] = field(default_factory=dict)

    def node(self, name: str) -> TopologyNode:
        for node in self.nodes:
            if node.name == name:
                return node
        raise unknown_name(f"node of {self.name}", name, [node.name for node in self.nodes], "./lab status")

    def link(self, name: str) -> Link:
        for link in self.links:
            if link.name == name:
                return link
        raise unknown_name(f"link of {self.name}", name, [link.name for link in self.links])

    def port_between(self, source: str, target: str) -> int:
        """Return the port at Toxiproxy by which `target` replicates from `source`, also before there is the link."""
        for link in self.links:
            if (link.source, link.target) == (source, target):
                return link.port
        names = [node.name for node in self.nodes]
        return FIRST_FURTHER_PORT + 100 * names.index(source) + names.index(target)

    def links_from(self, node: str) -> tuple[Link, ...]:
        """Return the links that carry what `node` writes to its replicas."""
        names = {each.name for each in self.nodes}
        return tuple(
            link for link in self.links if link.source == node and link.target in names and not link.name.endswith(RING)
        )

    @property
    def sources(self) -> dict[str, str]:
        """The node that each replica replicates from."""
        names = {each.name for each in self.nodes}
        crossing = {link.target: link.source for link in self.links if {link.source, link.target} <= names}
        return crossing | self.follows

    @cached_property
    def source(self) -> TopologyNode:
        """The node where clients write by default: the source of all others, or a cluster's first node."""
        return next((node for node in self.nodes if node.role == "source"), self.nodes[0])

    @property
    def replicas(self) -> tuple[TopologyNode, ...]:
        """The nodes with the other copies: those other than the source or the cluster's first node."""
        return tuple(node for node in self.nodes if node is not self.source)


class _Lab(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    replication: str
    toxics: dict[str, str] = {}
    storage: dict[str, Storage] = {}
    manager: str = ""
    # The node that a further replica is like, and the node that a relay is like: what `lab up --replicas` makes.
    more: dict[str, str] = {}
    endpoint: str = ""


@cache
def parse_topology(name: str, text: str, file: str = "") -> Topology:
    """Return the Topology of the text of compose/NAME.yaml; LabError says which key or value does not fit."""
    file = file or f"compose/{name}.yaml"
    document = mapping_of(file, text)
    lab = _lab(file, document)
    links = () if lab.replication == NO_REPLICATION else _links(file, document)
    nodes = _nodes(file, document, links)
    own = (lab.toxics, lab.storage, lab.manager, lab.endpoint)
    topology = Topology(name, lab.about, lab.replication, nodes, links, *own, tuple(_having(ARBITRATES, document)))
    for link in lab.toxics:
        topology.link(link)
    for node in (*lab.storage, *lab.more.values()):
        topology.node(node)
    return topology


def mapping_of(file: str, text: str) -> dict[str, Any]:
    """Return the document of a Compose file's text; LabError if it is none."""
    with as_lab_error(yaml.YAMLError, f"{file} is not YAML", "a Compose file", f"docker compose -f {file} config"):
        document = yaml.load(text, LOADER)
    if not isinstance(document, dict) or "services" not in document:
        raise LabError(f"{file} has no services", "a Compose file", f"docker compose -f {file} config")
    return document


def _lab(file: str, document: dict[str, Any]) -> _Lab:
    if "x-lab" not in document:
        raise LabError(
            f"{file} has no x-lab",
            'x-lab with the keys "about", "replication" and "toxics"',
            "compare with compose/async.yaml",
        )
    expected = 'the keys "about", "replication", "toxics", "storage", "manager", "more", "endpoint"'
    with as_lab_error(msgspec.ValidationError, f"{file}: x-lab", expected):
        return msgspec.convert(document["x-lab"], _Lab)


def _links(file: str, document: dict[str, Any]) -> tuple[Link, ...]:
    content = document.get("configs", {}).get("links", {}).get("content")
    with as_lab_error(ValueError, f"{file}: configs.links is not JSON", "Toxiproxy's list of proxies"):
        entries = json.loads(content) if content else []
    if not entries:
        raise LabError(
            f"{file} has no links", "configs.links with Toxiproxy's list of proxies", "compare with compose/async.yaml"
        )
    links: dict[str, Link] = {}
    for entry in entries:
        found = _link(file, entry, document["services"])
        if known := links.get(found.name):
            answers = found if found.proxies[0].endswith((SQL, ECHO)) else known
            found = replace(answers, proxies=known.proxies + found.proxies)
        links[found.name] = found
    return tuple(links.values())


def _link(file: str, entry: dict[str, str], services: dict[str, Any]) -> Link:
    name = entry.get("name", "")
    starts = [service for service in services if name.startswith(f"{service}-")]
    for source, target, kind in product(starts, services, ("", RING)):
        way = f"{source}-{target}{kind}"
        if name == way or name in {f"{way}-{channel}" for channel in CHANNELS}:
            return Link(way, entry["listen"], entry["upstream"], source, target, (name,))
    raise LabError(
        f"{file}: link name {name!r} is not of the form FROM-TO", "FROM-TO, where both are services of the file"
    )


def _nodes(file: str, document: dict[str, Any], links: tuple[Link, ...]) -> tuple[TopologyNode, ...]:
    """Return the nodes as the services name each other: peers, members of one list, or the ends of links."""
    if peers := _having(PEER, document):
        return _peers(file, peers)
    if members := _having(MEMBERS, document):
        return _members(file, members, len(_having(ARBITRATES, document)))
    return _followers(document, links) if links else _alone(file, document)


def _having(setting: str, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    environments = {name: service.get("environment", {}) for name, service in document["services"].items()}
    return {name: each for name, each in environments.items() if setting in each}


def _alone(file: str, document: dict[str, Any]) -> tuple[TopologyNode, ...]:
    """Return the only server of a topology without replication: the service that extends source."""
    found = [name for name, each in document["services"].items() if each.get("extends", {}).get("service") == "source"]
    if len(found) != 1:
        raise LabError(
            f"{file} has the sources {', '.join(found) or 'none'}",
            "exactly one service that extends source, because replication is none",
            "compare with compose/single.yaml",
        )
    return (TopologyNode(found[0], "source"),)


def _followers(document: dict[str, Any], links: tuple[Link, ...]) -> tuple[TopologyNode, ...]:
    sources, targets = {link.source for link in links}, {link.target for link in links}
    return tuple(
        TopologyNode(name, "relay" if name in sources & targets else "source" if name in sources else "replica")
        for name in document["services"]
        if name in sources | targets
    )


def _peers(file: str, settings: dict[str, dict[str, Any]]) -> tuple[TopologyNode, ...]:
    """Return the two machines of a DRBD resource; LabError unless each names the other."""
    peers = {name: environment[PEER] for name, environment in settings.items()}
    if len(peers) != PAIR or any(peers.get(peer) != name for name, peer in peers.items()):
        raise LabError(
            f"{file}: LAB_PEER is {' and '.join(f'{peer} for {name}' for name, peer in peers.items())}",
            "two services, each the LAB_PEER of the other",
            "compare with compose/drbd.yaml",
        )
    return tuple(TopologyNode(name, "peer") for name in peers)


def _members(file: str, settings: dict[str, dict[str, Any]], arbitrators: int) -> tuple[TopologyNode, ...]:
    """Return the nodes of a cluster or a group; LabError if their list or their votes do not form one."""
    for name, environment in settings.items():
        strangers = set(environment[MEMBERS].split()) ^ set(settings)
        if strangers:
            raise LabError(
                f"{file}: LAB_MEMBERS of {name} is {environment[MEMBERS]!r}, which differs from the nodes of the "
                f"file in {', '.join(sorted(strangers))}",
                f"LAB_MEMBERS: {' '.join(settings)}",
            )
    votes = [int(environment.get("LAB_WEIGHT", 1)) for environment in settings.values()] + [1] * arbitrators
    if _can_be_halved(votes):
        raise LabError(
            f"{file}: {len(settings)} nodes with the votes {votes} can split evenly, leaving no majority",
            'an odd number of nodes, LAB_WEIGHT: "2" for one of them, or an arbitrator',
        )
    return tuple(TopologyNode(name, "member") for name in settings)


def _can_be_halved(votes: list[int]) -> bool:
    sums = {0}
    for vote in votes:
        sums |= {known + vote for known in sums}
    return sum(votes) / 2 in sums
