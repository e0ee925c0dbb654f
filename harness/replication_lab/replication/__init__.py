"""Kinds of replication, one file each: proofs, when copies are level, promotion, a measured case, a shown state.

A kind registers itself (`kind.register`): a new one is a new module in this folder, and a feature of engines.
"""

from importlib import import_module
from pkgutil import iter_modules

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.lab.topology import Topology
from replication_lab.replication.kind import KINDS, Nodes
from replication_lab.world import catalogue
from replication_lab.world.docker import servers
from replication_lab.world.docker.lab import Lab

# Most labs are of the kinds in this module. To import all others takes a thirtieth of a second.
USUAL = "source_replica"
Key = tuple[str, str]


def kind_of(topology: Topology) -> type[Nodes]:
    """Return the kind of replication of a topology, with what it needs before a lab of it is up."""
    key, file = (topology.replication, topology.manager), f"compose/{topology.name}.yaml"
    _import_for(key)
    if key not in KINDS:
        compare = f"correct x-lab in {file}"
        raise unknown_name(f"replication in {file}: x-lab", _said(key), map(_said, KINDS), compare)
    kind, roles = KINDS[key], {node.role for node in topology.nodes}
    if not roles <= kind.roles:
        raise LabError(
            f"{file} has nodes with the roles {', '.join(sorted(roles))}, but replication is {_said(key)}",
            f"nodes with the roles {', '.join(sorted(kind.roles))}",
            f"compare {file} with another topology of this kind in compose/",
        )
    return kind


def _import_for(key: Key) -> None:
    """Import modules of this folder until one has registered the kind, or all of them."""
    for name in (USUAL, *(found.name for found in iter_modules(__path__))):
        if key in KINDS:
            return
        import_module(f"{__name__}.{name}")


def _said(key: Key) -> str:
    return " under ".join(filter(None, key))


def of(lab: Lab) -> Nodes:
    """Return a lab's nodes as objects of its kind of replication."""
    return kind_of(lab.topology)(lab)


def refuse_unfit_servers(topology: Topology, text: str, command: str = "") -> None:
    """Refuse, without Docker, servers that a kind of replication cannot run; `command` as in `catalogue.engine_for`."""
    texts = dict.fromkeys(servers.of_nodes(topology, text).values())
    kind = kind_of(topology)
    if len(texts) > 1 and not kind.follows_a_source:
        raise LabError(
            f"{text} for {topology.name}, whose nodes all start with the data of one image",
            "one server for all nodes; or a source and replicas, which may differ",
            "./lab up async --engine source=mysql-8.0 --engine replica=mysql",
        )
    for each in texts:
        if not servers.named(each).image:
            catalogue.engine_for(topology, each, command)
        elif kind.in_machines:
            raise LabError(
                f"{each} for {topology.name}, whose virtual machines contain the lab's own MariaDB",
                "mariadb, or a topology without virtual machines",
                f"./lab {command or f'up {topology.name}'} --engine mariadb",
            )
