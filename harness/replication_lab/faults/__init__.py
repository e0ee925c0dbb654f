"""Faults: each file is one kind. Each fault verifies that it took hold, and recovers exactly what it broke.

A fault registers itself (`fault.register`), so that a new one is a new module in this folder and no line elsewhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from replication_lab.faults.fault import FAULTS, Fault
from replication_lab.model.drill import FaultSpec
from replication_lab.model.fault import NODES, FaultKind, links_of
from replication_lab.world.docker.lab import Lab

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")


def kinds() -> dict[str, FaultKind]:
    """Return the kind of each fault, by name."""
    return {name: fault.kind for name, fault in FAULTS.items()}


def of(lab: Lab, spec: FaultSpec) -> Fault:
    """Return the fault that a drill's step names, ready to be injected."""
    kind, make = FAULTS[spec.fault]
    targets = spec.targets if kind.acts_on == NODES else links_of(lab.topology, spec.targets)
    return make(lab, targets, **spec.settings)
