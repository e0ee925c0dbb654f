"""Faults: each verifies that it took hold, and recovers exactly what it broke.

A file has the kinds that break one thing. A fault registers itself (`fault.fault`), so that a new one is a new
module in this folder and no line elsewhere; one of the user's own is a file in lab/faults/.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from replication_lab.faults.fault import FAULTS, Fault, Registered
from replication_lab.model.drill.drill import FaultSpec
from replication_lab.model.drill.fault import NODES, FaultKind, links_of
from replication_lab.world import own
from replication_lab.world.docker.lab import Lab


@cache
def _import_all() -> None:
    """Import each module of this folder. It takes a tenth of a second, and most commands use no fault."""
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}")


def _registered() -> dict[str, Registered]:
    """Return all faults, those of the user's project included. Raise LabError for a bad file of theirs."""
    _import_all()
    files = own.files("faults", ".py").values()
    mine = {own.module_of(path, "a file with a class that is a `fault` (docs/adding.md)").__name__ for path in files}
    modules = {name: found.make.__module__ for name, found in FAULTS.items()}
    # Those of another project may still be loaded.
    return {name: FAULTS[name] for name, its in modules.items() if not own.is_own_module(its) or its in mine}


def kinds() -> dict[str, FaultKind]:
    """Return the kind of each fault, by name."""
    return {name: fault.kind for name, fault in sorted(_registered().items())}


def of(lab: Lab, spec: FaultSpec) -> Fault:
    """Return the fault that a drill's step names, ready to be injected."""
    acts_on = kinds()[spec.fault].acts_on
    targets = spec.targets if acts_on == NODES else links_of(lab.topology, spec.targets)
    return made(lab, spec.fault, targets, **spec.settings)


def made(lab: Lab, name: str, targets: Sequence[str], **settings: Any) -> Fault:
    """Return the fault of that name for nodes or links of a lab, ready to be injected."""
    return _registered()[name].make(lab, targets, **settings)
