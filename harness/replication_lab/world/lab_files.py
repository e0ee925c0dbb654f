"""The files about labs in runs/labs, NAME.SUFFIX: by a valid name and a known suffix only; found without Docker.

NAME.json is what is saved of a lab that came up in full and is meant to stay.
"""

import os
import re
from pathlib import Path

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.lab_request import NAME
from replication_lab.model.lab.option_file import Option
from replication_lab.world import folders
from replication_lab.world.files import read_own, read_own_as, write_whole

FOLDER = folders.KEPT / "labs"
# The settings with which Compose was called, what was proved, what replicas have not applied, an attachment, and
# its file for Compose.
SETTINGS, STATE, RECEIVED, ATTACHED, OVERRIDE = ".env", ".json", ".received.json", ".attached", ".override.yaml"
# Files for Compose: of a topology with a size of its own, of nodes that run different servers, and of emulated disks,
# now and after a migration.
TOPOLOGY, SERVERS, STORAGE, NEXT_STORAGE = ".topology.yaml", ".servers.yaml", ".storage.yaml", ".storage.next.yaml"
# The same of the endpoint in front of the nodes, of the failover manager, and of nodes on several sites.
ENDPOINT, MANAGER, SITES = ".endpoint.yaml", ".manager.yaml", ".sites.yaml"
# In the settings: the ID of the Docker engine that the lab is in.
ENGINE_ID = "LAB_ENGINE_ID"
SUFFIXES = (
    *(SETTINGS, STATE, RECEIVED, ATTACHED),
    *(TOPOLOGY, SERVERS, STORAGE, NEXT_STORAGE, ENDPOINT, MANAGER, SITES, OVERRIDE, ".migration.json"),
)
# One file for each view of a lab, with the number of its process.
VIEWED = ".viewed"
_OF_A_VIEW = re.compile(r"\.\d+\.viewed")


def file_of(name: str, suffix: str) -> Path:
    if not NAME.fullmatch(name):
        raise LabError(f"{name[:80]!r} is not a valid name of a lab", "lowercase letters, digits, - and _")
    return FOLDER / f"{name}{suffix}"


def names(suffix: str) -> list[str]:
    """Return the names of the labs that have a file with this suffix."""
    found = (path.name.removesuffix(suffix) for path in FOLDER.glob(f"*{suffix}"))
    return sorted(name for name in found if NAME.fullmatch(name))


def settings(name: str) -> dict[str, str]:
    """Return the settings with which a lab was started from this checkout; none if it was not."""
    lines = (read_own(file_of(name, SETTINGS)) or b"").decode(errors="replace").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def remove(name: str) -> None:
    """Remove the files of a lab."""
    for path in [*(file_of(name, suffix) for suffix in SUFFIXES), *views(name)]:
        path.unlink(missing_ok=True)


def view_of(name: str) -> Path:
    """Return the file of this process's view of a lab."""
    return file_of(name, f".{os.getpid()}{VIEWED}")


def views(name: str = "") -> list[Path]:
    """Return the files of the views of a lab, or of all labs."""
    found = sorted(FOLDER.glob(f"*{VIEWED}"))
    return [path for path in found if not name or _OF_A_VIEW.fullmatch(path.name.removeprefix(name))]


class LabState(msgspec.Struct, frozen=True):
    """A lab as it came up; `options` are what each node was started with, in addition to the lab's own options."""

    topology: str
    engine: str
    proofs: list[Proof]
    toxics: dict[str, str]
    options: dict[str, list[Option]] = {}


def saved_state(lab: str) -> LabState | None:
    """Return what was saved when the lab of this name came up; None if it never did."""
    return read_own_as(file_of(lab, STATE), LabState)


def save_state(lab: str, state: LabState) -> None:
    """Save that the lab of this name came up completely: from now on it does not count as a leftover."""
    write_whole(file_of(lab, STATE), msgspec.json.format(msgspec.json.encode(state)))
