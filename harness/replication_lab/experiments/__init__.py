"""Experiments: one question a file, with the figures from the literature in the YAML beside it.

A file whose name begins with "_" is a part of one: its cases, or its claims.
"""

import importlib
from pathlib import Path

from replication_lab.model.errors import unknown_name
from replication_lab.model.experiment import Experiment


def names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def load(name: str) -> Experiment:
    if name not in names():
        raise unknown_name("experiment", name, names(), "./lab list experiments")
    return importlib.import_module(f"replication_lab.experiments.{name}").experiment
