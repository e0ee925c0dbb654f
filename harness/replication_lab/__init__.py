"""The lab: real servers, real faults, and verdicts that can be trusted.

The names in `__all__` are the public ones: what an experiment, a load, a probe or a fault of your own is written with,
and the types that the fixtures of the pytest plugin return. They keep their meaning within a minor version. Every other
module is private.

A name is imported when it is first used, so that `import replication_lab` loads neither Docker nor scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replication_lab.experiments._declared import experiment
    from replication_lab.faults._links import OnLinks
    from replication_lab.faults._nodes import OnNodes
    from replication_lab.faults.fault import fault
    from replication_lab.model.core.errors import LabError
    from replication_lab.model.core.proof import Proof
    from replication_lab.model.core.verdict import Verdict
    from replication_lab.model.drill.fault import Setting
    from replication_lab.model.experiment.case import Case
    from replication_lab.model.experiment.claim import Claim, claim
    from replication_lab.model.experiment.experiment import Experiment, Preset
    from replication_lab.model.experiment.measuring import LoadOutcome
    from replication_lab.model.experiment.quantities import (
        errors,
        figure,
        lag,
        p50,
        p95,
        p99,
        p999,
        per_round_trip,
        rtt,
        throughput,
        total,
    )
    from replication_lab.pytest_plugin.answers import Answer
    from replication_lab.pytest_plugin.handles import Acting, LabLink, LabNode, RunningLab
    from replication_lab.pytest_plugin.recorded import Drilled, Judged
    from replication_lab.report.rows import DrillsSummary, ExperimentSummary
    from replication_lab.workloads.inserts import Inserts
    from replication_lab.workloads.timed import timed
    from replication_lab.world.docker.lab import Lab
    from replication_lab.world.docker.service import Node
    from replication_lab.world.mysql.server import Server
    from replication_lab.world.packets.link import RunningLink

# The build reads it here.
VERSION = "0.2.0"

# The public names, by the module that defines them.
_PUBLIC = {
    "model.core.errors": ("LabError",),
    "model.core.proof": ("Proof",),
    "model.core.verdict": ("Verdict",),
    "model.drill.fault": ("Setting",),
    "model.experiment.case": ("Case",),
    "model.experiment.claim": (
        "Claim",
        "claim",
    ),
    "model.experiment.experiment": (
        "Experiment",
        "Preset",
    ),
    "model.experiment.measuring": ("LoadOutcome",),
    "model.experiment.quantities": (
        *("errors", "figure", "lag", "per_round_trip", "rtt", "throughput", "total"),
        *("p50", "p95", "p99", "p999"),
    ),
    "experiments._declared": ("experiment",),
    "faults._links": ("OnLinks",),
    "faults._nodes": ("OnNodes",),
    "faults.fault": ("fault",),
    "pytest_plugin.answers": ("Answer",),
    "pytest_plugin.handles": (
        "Acting",
        "LabLink",
        "LabNode",
        "RunningLab",
    ),
    "pytest_plugin.recorded": (
        "Drilled",
        "Judged",
    ),
    "report.rows": (
        "DrillsSummary",
        "ExperimentSummary",
    ),
    "workloads.inserts": ("Inserts",),
    "workloads.timed": ("timed",),
    "world.docker.lab": ("Lab",),
    "world.packets.link": ("RunningLink",),
    "world.docker.service": ("Node",),
    "world.mysql.server": ("Server",),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "Acting",
    "Answer",
    "Case",
    "Claim",
    "Drilled",
    "DrillsSummary",
    "Experiment",
    "ExperimentSummary",
    "Inserts",
    "Judged",
    "Lab",
    "LabError",
    "LabLink",
    "LabNode",
    "LoadOutcome",
    "Node",
    "OnLinks",
    "OnNodes",
    "Preset",
    "Proof",
    "RunningLab",
    "RunningLink",
    "Server",
    "Setting",
    "Verdict",
    "claim",
    "errors",
    "experiment",
    "fault",
    "figure",
    "lag",
    "p50",
    "p95",
    "p99",
    "p999",
    "per_round_trip",
    "rtt",
    "throughput",
    "timed",
    "total",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
