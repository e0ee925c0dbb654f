"""The Compose file of a lab whose nodes are on several sites: what each publishes or joins, and dials."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from replication_lab.model.lab import site
from replication_lab.model.lab.site import GALERA, PROXY, SERVER_PORT, Site
from replication_lab.model.lab.spread_load import SpreadLoad
from replication_lab.model.lab.topology import HOST_PORTS, Topology, mapping_of
from replication_lab.world import catalogue

# The services of a profile, which are started only if they are asked for.
OPTIONAL = ("load",)
HEAD = "# Written by `lab up --site` for {name}.\n"
ADDRESS_HEAD = "# Written by `lab up --site-address`, or `lab ask --load-sites`, for {name}.\n"
# Compose merges mappings, and refuses a network that is external and has the topology's labels.
NETWORK = """\
networks:
  default: !override
    name: {network}
    external: true
"""
# Starts a node of a Galera cluster that shares no volume with the others.
APART = "galera-start-apart"
API_PORT = 8474


def services(topology: Topology, nodes: Mapping[str, Site]) -> dict[str, Site]:
    """Return the site of each service of a topology's file; empty for a lab on one engine."""
    return site.of_services(topology, _document(topology)["services"], nodes) if nodes else {}


def names(topology: Topology) -> list[str]:
    """Return the services of a topology's file."""
    return list(_document(topology)["services"])


def network_of(project: str) -> str:
    """Return the name of the network of a lab that all its sites are in."""
    return f"{project}_sites"


def overlay(project: str, topology: Topology, nodes: Mapping[str, Site]) -> str:
    """Return the Compose file that a lab's own files are extended by, the same for every site.

    A node's name leads to its site's address where it runs elsewhere, so a name means the same server on all sites.
    """
    document, proxies = _document(topology), site.proxies(topology, nodes)
    by_overlay = any(each.is_on_overlay for each in nodes.values())
    beside = {here: name for name, here in proxies.items()}
    added = {name: _node(topology, name, here, beside.get(here, PROXY)) for name, here in nodes.items()}
    configs: dict[str, Any] = {}
    if topology.replication == GALERA:
        configs[APART] = {"file": str(catalogue.COMPOSE / "engines" / APART)}
        through = " ".join(f"{name}={beside[here]}" for name, here in nodes.items())
        for name in nodes:
            sidecar = document["services"][name]["network_mode"].removeprefix("service:")
            added[sidecar] = {"environment": {"LAB_PROXIES": through}}
    links = json.loads(document["configs"]["links"]["content"])
    dialled_from = {proxy: nodes[link.dialler] for link in topology.links for proxy in link.proxies}
    for name, here in proxies.items():
        own = [_link(topology, link, nodes, here) for link in links if dialled_from[link["name"]] == here]
        configs["links" if name == PROXY else f"links-{name}"] = {"content": json.dumps(own)}
        added[name] = _proxy(name, nodes, here)
    content = msgspec.yaml.encode({"services": added, "configs": configs}).decode()
    network = NETWORK.format(network=network_of(project)) if by_overlay else ""
    return HEAD.format(name=topology.name) + content + network


def published(topology: Topology, address: str, load: SpreadLoad | None = None) -> str:
    """Return the Compose file of a lab whose nodes are on one engine; empty without an address and a spread load.

    By it the lab also publishes its servers on the address, and has the containers of the load.
    """
    added = dict.fromkeys(load.services(), _parts()["client"]) if load else {}
    for node in topology.nodes if address else ():
        # Nodes of a cluster are in the network of a sidecar.
        owner = _document(topology)["services"][node.name].get("network_mode", "").removeprefix("service:") or node.name
        # Several labs of a question are up at the same time, each on ports that are free.
        port = f"{address}:{HOST_PORTS}:{SERVER_PORT}" if load else _port(topology, node.name, address)
        added[owner] = {"ports": [port]}
    return ADDRESS_HEAD.format(name=topology.name) + msgspec.yaml.encode({"services": added}).decode() if added else ""


def _port(topology: Topology, node: str, address: str) -> str:
    return f"{address}:{site.port_of(topology, node)}:{SERVER_PORT}"


def _node(topology: Topology, name: str, here: Site, proxy: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not here.is_on_overlay:
        found["ports"] = [_port(topology, name, here.address)]
    elif topology.replication == GALERA:
        found["entrypoint"] = ["bash", f"/usr/local/bin/{APART}"]
        found["configs"] = [{"source": APART, "target": f"/usr/local/bin/{APART}", "mode": 0o555}]
    elif proxy != PROXY:
        # In the network of all sites the name is that of another site's.
        found["links"] = [f"{proxy}:{PROXY}"]
    return found


def _link(topology: Topology, link: dict[str, str], nodes: Mapping[str, Site], here: Site) -> dict[str, str]:
    node, _, port = link["upstream"].rpartition(":")
    if int(port) != SERVER_PORT:
        return link
    host, number = site.server_at(topology, node, nodes[node], here)
    return {**link, "upstream": f"{host}:{number}"}


def _proxy(name: str, nodes: Mapping[str, Site], here: Site) -> dict[str, Any]:
    """Return what a Toxiproxy has beside the topology's own; each further one is like that."""
    found: dict[str, Any] = {}
    if not here.is_on_overlay:
        found["extra_hosts"] = {node: there.address for node, there in nodes.items() if there != here}
    if name == PROXY:
        return found
    made: dict[str, Any] = dict(_parts()[PROXY])
    made["configs"] = [{**made["configs"][0], "source": f"links-{name}"}]
    made["ports"] = [f"127.0.0.1:{HOST_PORTS}:{API_PORT}"]
    if not here.is_on_overlay:
        made["networks"] = {"default": {"aliases": [PROXY]}}
    return made | found


def _parts() -> dict[str, Any]:
    return mapping_of("_parts", (catalogue.COMPOSE / "_parts.yaml").read_text())["services"]


def _document(topology: Topology) -> dict[str, Any]:
    return mapping_of(topology.name, catalogue.compose_text(topology.name))
