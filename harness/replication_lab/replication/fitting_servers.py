"""Servers that a topology's kind of replication cannot run, refused without Docker."""

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.replication import kind_of
from replication_lab.world import catalogue
from replication_lab.world.docker import servers


def check(topology: Topology, text: str, command: str = "") -> None:
    """Refuse servers that can be refused without Docker; `command` is as in `catalogue.engine_for`."""
    texts = dict.fromkeys(servers.of_nodes(topology, text).values())
    if len(texts) > 1 and not kind_of(topology).follows_a_source:
        raise LabError(
            f"{text} for {topology.name}, whose nodes all start with the data of one image",
            "one server for all nodes; or a source and replicas, which may differ",
            "./lab up async --engine source=mysql-8.0 --engine replica=mysql",
        )
    for each in texts:
        _check(topology, each, command)


def _check(topology: Topology, text: str, command: str) -> None:
    asked = servers.named(text)
    if not asked.image:
        catalogue.engine_for(topology, text, command)
    elif kind_of(topology).in_machines:
        raise LabError(
            f"{text} for {topology.name}, whose virtual machines contain the lab's own MariaDB",
            "mariadb, or a topology without virtual machines",
            f"./lab {command or f'up {topology.name}'} --engine mariadb",
        )
