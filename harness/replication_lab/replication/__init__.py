"""Kinds of replication, one file each: its proofs, when its copies are level, promotion and rejoining.

A kind registers itself (`kind.register`), so that a new one is a new module in this folder and no line elsewhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from replication_lab.model.errors import LabError
from replication_lab.model.topology import Topology
from replication_lab.replication.kind import KINDS, Nodes
from replication_lab.world.docker.lab import Lab

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")


def kind_of(topology: Topology) -> type[Nodes]:
    """Return the kind of replication of a topology, with what it needs before a lab of it is up."""
    key = topology.replication, topology.manager
    if key not in KINDS:
        under = f" under {topology.manager}" if topology.manager else ""
        raise LabError(
            f"{topology.name} replicates by {topology.replication}{under}, which no module in replication/ registers",
            "one of " + ", ".join(sorted(" under ".join(filter(None, known)) for known in KINDS)),
            f"compare compose/{topology.name}.yaml with harness/replication_lab/replication",
        )
    return KINDS[key]


def of(lab: Lab) -> Nodes:
    """Return a lab's nodes as objects of its kind of replication."""
    return kind_of(lab.topology)(lab)
