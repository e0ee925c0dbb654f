"""The Compose file of a lab whose nodes are on several sites: what each publishes on its address, and dials."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from replication_lab.model.lab import site
from replication_lab.model.lab.site import PROXY, Site
from replication_lab.model.lab.topology import Topology, mapping_of
from replication_lab.world import catalogue

# The services of a profile, which are started only if they are asked for.
OPTIONAL = ("load",)
MYSQL_PORT = 3306
HEAD = "# Written by `lab up --site` for {name}.\n"


def services(topology: Topology, nodes: Mapping[str, Site]) -> dict[str, Site]:
    """Return the site of each service of a topology's file; empty for a lab on one engine."""
    return site.of_services(topology, _document(topology)["services"], nodes) if nodes else {}


def overlay(topology: Topology, nodes: Mapping[str, Site]) -> str:
    """Return the Compose file that a lab's own files are extended by, the same for every site.

    A node's name leads to its site's address where it runs elsewhere, so a name means the same server on all sites.
    """
    document, placed = _document(topology), services(topology, nodes)
    proxy = placed[PROXY]
    added: dict[str, dict[str, Any]] = {}
    for name, here in nodes.items():
        port = site.port_of(topology, name)
        added[name] = {"ports": [f"{here.address}:{port}:{MYSQL_PORT}"], **_hosts(here, {PROXY: proxy})}
    ports = [f"{proxy.address}:{port}:{port}" for port in site.proxy_ports(topology, nodes)]
    added[PROXY] = {"ports": ports, **_hosts(proxy, nodes)}
    links = json.loads(document["configs"]["links"]["content"])
    for link in links:
        node = link["upstream"].rpartition(":")[0]
        if nodes[node] != proxy:
            link["upstream"] = f"{node}:{site.port_of(topology, node)}"
    content = {"services": added, "configs": {"links": {"content": json.dumps(links)}}}
    return HEAD.format(name=topology.name) + msgspec.yaml.encode(content).decode()


def _hosts(here: Site, others: Mapping[str, Site]) -> dict[str, Any]:
    found = {name: there.address for name, there in others.items() if there != here}
    return {"extra_hosts": found} if found else {}


def _document(topology: Topology) -> dict[str, Any]:
    return mapping_of(topology.name, catalogue.compose_text(topology.name))
