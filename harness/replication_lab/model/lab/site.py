"""The sites of a lab: the Docker engine that runs each of its nodes, and the address by which other sites reach it."""

import ipaddress
from collections.abc import Mapping
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology

# The kinds of replication whose replicas dial their source only: a site needs a port for each of its nodes. Nodes of a
# cluster dial each other by their own addresses, which a network between the sites has to carry.
BY_PORTS = ("async", "semisync")
GALERA, DRBD = "galera", "drbd"
BY_OVERLAY = (*BY_PORTS, GALERA, DRBD)
# The node with the number N of a topology is reached at this port and N more of its site's address.
FIRST_PORT, SERVER_PORT = 20_000, 3306
PROXY = "toxiproxy"
OPTION, ADDRESS_OPTION, NETWORK_OPTION = "--site", "--site-address", "--site-network"
# What leads from one site to another: ports on the sites' addresses, or a network of Docker Swarm's, also encrypted.
PORTS, OVERLAY, ENCRYPTED = "ports", "overlay", "encrypted"
NETWORKS = (PORTS, OVERLAY, ENCRYPTED)


class Site(msgspec.Struct, frozen=True):
    """An engine by its endpoint, empty for the command's own, and what others reach it by.

    `address` is that of its ports; it is empty with an overlay.
    """

    endpoint: str = ""
    address: str = ""
    network: str = PORTS

    def __str__(self) -> str:
        return self.endpoint or "the command's own engine"

    @property
    def is_on_overlay(self) -> bool:
        """Whether its containers and those of the other sites are in one network."""
        return self.network != PORTS


def placed(
    topology: Topology, endpoints: Mapping[str, str], addresses: Mapping[str, str], network: str = PORTS
) -> dict[str, Site]:
    """Return the site of each node, from the endpoints and addresses of some; empty if none has an endpoint.

    Raise LabError for a node that is not known, a site without an address of its own, or nodes that cannot be apart.
    """
    for node in (*endpoints, *addresses):
        topology.node(node)
    if not endpoints:
        if addresses or network != PORTS:
            given = ADDRESS_OPTION if addresses else NETWORK_OPTION
            raise LabError(f"{given} without {OPTION}", f"{OPTION} NODE=ENDPOINT", "./lab up --help")
        return {}
    _refuse_unfit(topology, network)
    at = {node.name: endpoints.get(node.name, "") for node in topology.nodes}
    found = dict.fromkeys(at.values())
    if len(found) == 1:
        [endpoint] = found
        raise LabError(
            f"all nodes are on {endpoint}", "nodes on at least two sites", f"DOCKER_HOST={endpoint} ./lab up"
        )
    if network == PORTS:
        sites = _by_ports(at, addresses)
    elif addresses:
        raise LabError(f"{ADDRESS_OPTION} with {NETWORK_OPTION} {network}", "one of them", "./lab up --help")
    else:
        sites = {endpoint: Site(endpoint, network=network) for endpoint in found}
    return {node: sites[endpoint] for node, endpoint in at.items()}


def published_at(topology: Topology, endpoints: Mapping[str, str], addresses: Mapping[str, str]) -> str:
    """Return the address on which a lab on one engine also publishes its servers; empty if none was given, or sites.

    Raise LabError for a node that is not known, two addresses, or one that no other machine reaches.
    """
    if endpoints or not addresses:
        return ""
    for node in addresses:
        topology.node(node)
    return _by_ports({node.name: "" for node in topology.nodes}, addresses)[""].address


def _refuse_unfit(topology: Topology, network: str) -> None:
    able = BY_PORTS if network == PORTS else BY_OVERLAY
    # A manager's machines have a second network, for the address of the service.
    if topology.replication in able and not topology.manager:
        return
    by = f" by {network}" if topology.replication in BY_OVERLAY and not topology.manager else ""
    raise LabError(
        f"the nodes of {topology.name} cannot be on several sites{by}",
        f"{NETWORK_OPTION} {OVERLAY}" if by else f"a topology whose replication is {' or '.join(able)}",
        "./lab list topologies",
    )


def _by_ports(at: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, Site]:
    given: dict[str, str] = {}
    for node, address in addresses.items():
        if given.setdefault(at[node], address) != address:
            raise LabError(f"{node}'s site has the addresses {given[at[node]]} and {address}", "one address for a site")
    sites = {endpoint: Site(endpoint, _address(endpoint, given, at)) for endpoint in dict.fromkeys(at.values())}
    used = [site.address for site in sites.values()]
    if len(set(used)) < len(used):
        raise LabError(f"two sites have the address {used[0]}", "an address of its own for each site")
    return sites


def _address(endpoint: str, given: Mapping[str, str], at: Mapping[str, str]) -> str:
    node = next(node for node, where in at.items() if where == endpoint)
    text = given.get(endpoint, "")
    expected = f"{ADDRESS_OPTION} {node}=ADDRESS, an address at which the other machines reach that one"
    if not text:
        raise LabError(
            f"the site of {node} has no address", f"{expected}; or, in one swarm, {NETWORK_OPTION} {OVERLAY}"
        )
    return usable_address(text, expected)


def usable_address(text: str, expected: str) -> str:
    """Return an IPv4 address that other machines can reach; LabError, with what was expected, for another text."""
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        raise LabError(f"{text} is not an IPv4 address", expected) from None
    if found.is_unspecified or found.is_loopback or found.is_multicast:
        raise LabError(f"other machines cannot reach a site at {text}", expected)
    return text


def proxies(topology: Topology, nodes: Mapping[str, Site]) -> dict[str, Site]:
    """Return the site of each Toxiproxy, by its service. Each site has one, for the links that its nodes dial.

    So a byte crosses the network between two sites once, and a ping from beside a Toxiproxy as replication does. Two
    machines that dial each other share one, beside one of them: either connection may carry what both write.
    """
    first = nodes[topology.links[0].dialler]
    found = [first] if topology.links[0].joins_guests else dict.fromkeys([first, *nodes.values()])
    return {f"{PROXY}{number if number > 1 else ''}": site for number, site in enumerate(found, 1)}


def of_services(
    topology: Topology, services: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Site]
) -> dict[str, Site]:
    """Return the site of each service of a Compose file, and of the further Toxiproxies.

    What a node depends on, such as its disk or its sidecar, is on that node's site; others are on the source's.
    """
    beside = {each: here for node, here in nodes.items() for each in services[node].get("depends_on", ())}
    source = nodes[topology.source.name]
    return {each: nodes.get(each) or beside.get(each, source) for each in services} | proxies(topology, nodes)


def port_of(topology: Topology, node: str) -> int:
    """Return the port of its site's address at which other sites reach a node's server."""
    return FIRST_PORT + 1 + [each.name for each in topology.nodes].index(node)


def server_at(topology: Topology, node: str, there: Site, here: Site) -> tuple[str, int]:
    """Return the host and port at which a Toxiproxy `here` reaches the server of a node that is `there`."""
    apart = there != here and not there.is_on_overlay
    return node, port_of(topology, node) if apart else SERVER_PORT
