"""The lab: real servers, real faults, and verdicts that can be trusted.

The names in `__all__` are the public ones: what an experiment of your own is written with, and the types that the
fixtures of the pytest plugin return. They keep their meaning within a minor version. Every other module is private.

A name is imported when it is first used, so that `import replication_lab` loads neither Docker nor scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replication_lab.model.core.errors import LabError
    from replication_lab.model.core.verdict import Verdict
    from replication_lab.model.experiment.case import Case
    from replication_lab.model.experiment.claim import Claim
    from replication_lab.model.experiment.experiment import Experiment, Preset
    from replication_lab.model.experiment.quantities import (
        Difference,
        ErrorShare,
        Figure,
        PerRoundTrip,
        Ratio,
        Sum,
        Total,
        latency_p50,
        per_shortest_round_trip,
        rtt,
        throughput,
    )
    from replication_lab.model.experiment.relations import Bounds, KnownWithin, NoneSeen, SomeSeen
    from replication_lab.pytest_plugin.answers import Answer
    from replication_lab.pytest_plugin.handles import Acting, LabLink, LabNode, RunningLab
    from replication_lab.pytest_plugin.recorded import Drilled, Judged
    from replication_lab.report.rows import DrillsSummary, ExperimentSummary
    from replication_lab.world.docker.lab import Lab
    from replication_lab.world.docker.service import Node
    from replication_lab.world.mysql.server import Server
    from replication_lab.world.packets.link import RunningLink

# The build reads it here.
VERSION = "0.2.0"

# The public names, by the module that defines them.
_PUBLIC = {
    "model.experiment.claim": ("Claim",),
    "model.core.errors": ("LabError",),
    "model.experiment.case": ("Case",),
    "model.experiment.experiment": ("Experiment", "Preset"),
    "model.experiment.quantities": (
        *("Difference", "ErrorShare", "Figure", "PerRoundTrip", "Ratio", "Sum", "Total"),
        *("latency_p50", "per_shortest_round_trip", "rtt", "throughput"),
    ),
    "model.experiment.relations": ("Bounds", "KnownWithin", "NoneSeen", "SomeSeen"),
    "model.core.verdict": ("Verdict",),
    "pytest_plugin.answers": ("Answer",),
    "pytest_plugin.handles": ("Acting", "LabLink", "LabNode", "RunningLab"),
    "pytest_plugin.recorded": ("Drilled", "Judged"),
    "report.rows": ("DrillsSummary", "ExperimentSummary"),
    "world.docker.lab": ("Lab",),
    "world.packets.link": ("RunningLink",),
    "world.docker.service": ("Node",),
    "world.mysql.server": ("Server",),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "Acting",
    "Answer",
    "Bounds",
    "Case",
    "Claim",
    "Difference",
    "Drilled",
    "DrillsSummary",
    "ErrorShare",
    "Experiment",
    "ExperimentSummary",
    "Figure",
    "Judged",
    "KnownWithin",
    "Lab",
    "LabError",
    "LabLink",
    "LabNode",
    "Node",
    "NoneSeen",
    "PerRoundTrip",
    "Preset",
    "Ratio",
    "RunningLab",
    "RunningLink",
    "Server",
    "SomeSeen",
    "Sum",
    "Total",
    "Verdict",
    "latency_p50",
    "per_shortest_round_trip",
    "rtt",
    "throughput",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
