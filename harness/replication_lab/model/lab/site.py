"""The sites of a lab: the Docker engine that runs each of its nodes, and the address by which other sites reach it."""

import ipaddress
from collections.abc import Iterable, Mapping

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology

# The kinds of replication whose replicas dial their source only: a site needs a port for each of its nodes.
REPLICATIONS = ("async", "semisync")
# The node with the number N of a topology is reached at this port and N more of its site's address.
FIRST_PORT = 20_000
PROXY = "toxiproxy"
OPTION, ADDRESS_OPTION = "--site", "--site-address"


class Site(msgspec.Struct, frozen=True):
    """An engine by its endpoint, empty for the command's own, and the address at which others reach its ports."""

    endpoint: str = ""
    address: str = ""

    def __str__(self) -> str:
        return self.endpoint or "the command's own engine"


def placed(topology: Topology, endpoints: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, Site]:
    """Return the site of each node, from the endpoints and addresses of some; empty if none has an endpoint.

    Raise LabError for a node that is not known, a site without an address of its own, or nodes that cannot be apart.
    """
    for node in (*endpoints, *addresses):
        topology.node(node)
    if not endpoints:
        if addresses:
            raise LabError(f"{ADDRESS_OPTION} without {OPTION}", f"{OPTION} NODE=ENDPOINT", "./lab up --help")
        return {}
    if topology.replication not in REPLICATIONS:
        raise LabError(
            f"the nodes of {topology.name} cannot be on several sites",
            f"a topology whose replication is {' or '.join(REPLICATIONS)}",
            "./lab list topologies",
        )
    at = {node.name: endpoints.get(node.name, "") for node in topology.nodes}
    given: dict[str, str] = {}
    for node, address in addresses.items():
        if given.setdefault(at[node], address) != address:
            raise LabError(f"{node}'s site has the addresses {given[at[node]]} and {address}", "one address for a site")
    sites = {endpoint: Site(endpoint, _address(endpoint, given, at)) for endpoint in dict.fromkeys(at.values())}
    _refuse_same(sites.values())
    found = {node: sites[endpoint] for node, endpoint in at.items()}
    _proxy(topology, found)
    return found


def _address(endpoint: str, given: Mapping[str, str], at: Mapping[str, str]) -> str:
    node = next(node for node, where in at.items() if where == endpoint)
    text = given.get(endpoint, "")
    expected = f"{ADDRESS_OPTION} {node}=ADDRESS, an address of that machine which the other sites reach"
    if not text:
        raise LabError(f"the site of {node} has no address", expected)
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        raise LabError(f"{text} is not an IPv4 address", expected) from None
    if found.is_unspecified or found.is_loopback or found.is_multicast:
        raise LabError(f"other machines cannot reach a site at {text}", expected)
    return text


def _refuse_same(sites: Iterable[Site]) -> None:
    found = list(sites)
    if len(found) == 1:
        raise LabError(
            f"all nodes are on {found[0]}", "nodes on at least two sites", f"DOCKER_HOST={found[0].endpoint} ./lab up"
        )
    addresses = [site.address for site in found]
    if len(set(addresses)) < len(addresses):
        raise LabError(f"two sites have the address {addresses[0]}", "an address of its own for each site")


def _proxy(topology: Topology, nodes: Mapping[str, Site]) -> Site:
    """Return the site of Toxiproxy, that of the replicas: a ping from beside it crosses the network as they do."""
    found = {nodes[link.target] for link in topology.links}
    if len(found) > 1:
        raise LabError(
            f"the replicas of {topology.name} are on {' and '.join(sorted(map(str, found)))}",
            "all nodes with a source on one site, where their links' Toxiproxy stands",
            f"{OPTION} with the same endpoint for {', '.join(link.target for link in topology.links)}",
        )
    return found.pop()


def of_services(topology: Topology, services: Iterable[str], nodes: Mapping[str, Site]) -> dict[str, Site]:
    """Return the site of each service of a Compose file. Services beside nodes and proxy are on the source's site."""
    source = nodes[topology.source.name]
    return {each: _proxy(topology, nodes) if each == PROXY else nodes.get(each, source) for each in services}


def port_of(topology: Topology, node: str) -> int:
    """Return the port of its site's address at which other sites reach a node's server."""
    return FIRST_PORT + 1 + [each.name for each in topology.nodes].index(node)


def proxy_ports(topology: Topology, nodes: Mapping[str, Site]) -> list[int]:
    """Return the ports of Toxiproxy that nodes of other sites dial, also after a failover: their links into them."""
    there, names = _proxy(topology, nodes), [node.name for node in topology.nodes]
    return [
        topology.port_between(source, target)
        for target in names
        if nodes[target] != there
        for source in names
        if nodes[source] == there
    ]
