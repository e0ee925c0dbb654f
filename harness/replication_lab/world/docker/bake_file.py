"""The sources of an image: its service in images/bake.yaml, the services that it uses, and all their folders."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from replication_lab.model.lab.topology import LOADER
from replication_lab.world import catalogue

# The label of an image that holds the digest of its recipe.
RECIPE = "replication-lab.recipe"
_TARGET = "target:"


def path() -> Path:
    return catalogue.IMAGES / "bake.yaml"


def target(name: str) -> str:
    """Return the bake target of an image: bake allows no dot in a name."""
    return name.replace(".", "_")


def targets() -> dict[str, dict[str, Any]]:
    """Return the `build` of each service in bake.yaml, by the name of its target."""
    return _targets(path().read_text())


@cache
def _targets(text: str) -> dict[str, dict[str, Any]]:
    services = yaml.load(text, LOADER)["services"]
    return {target(name): service["build"] for name, service in services.items()}


def targets_of(name: str) -> dict[str, dict[str, Any]]:
    """Return an image's target and all targets that are built into it, by name: they are tagged along with it."""
    known, found, left = targets(), {}, [target(name)]
    while left:
        each = left.pop()
        if each not in found:
            found[each] = known[each]
            left += [used.removeprefix(_TARGET) for used in _contexts(known[each]) if used.startswith(_TARGET)]
    return found


def _contexts(build: dict[str, Any]) -> list[str]:
    return [build["context"], *build.get("additional_contexts", {}).values()]


def folders_of(name: str) -> set[str]:
    """Return the folders that go into an image, such as images/database."""
    builds = targets_of(name).values()
    return {used for build in builds for used in _contexts(build) if not used.startswith(_TARGET)}


def digest(name: str) -> str:
    """Return a digest of all that goes into an image: its targets, and every file of their folders."""
    found = hashlib.sha256(json.dumps(targets_of(name), sort_keys=True).encode())
    folders = [catalogue.IMAGES.parent / folder for folder in folders_of(name)]
    for file in sorted(file for folder in folders for file in folder.rglob("*") if file.is_file()):
        found.update(file.relative_to(catalogue.IMAGES).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def tag(name: str, processor: str) -> str:
    """Return what tells an image from one of another recipe or for another processor."""
    return f"{digest(name)}-{processor}"
