"""The settings `storage` and `disk` of a question: the emulated disks for a node's data, if any."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import ALONE

STORAGE, DISK = "storage", "disk"
# The value of `storage` for a node without emulated disks.
NONE = "none"
DEFAULT_DISK = "ssd"


@dataclass(frozen=True)
class Disks:
    """The requested storage of a node: LEVEL or LEVEL:DISKS, and the model of its disks."""

    level: str
    disk: str


def is_of_disks(name: str) -> bool:
    return name.rpartition(".")[2] in (STORAGE, DISK)


def disks_of(
    settings: Mapping[str, str], varied: Collection[str], nodes: Sequence[str], replicas: Sequence[str]
) -> dict[str, Disks | None]:
    """Return the storage of each node that a case's settings name; None for one without emulated disks.

    A setting without a node applies to all replicas; a setting of one node takes precedence. `varied` are the settings
    that differ between cases. Raise LabError for a disk of a node that has none.
    """
    found = {node: _asked(settings, node, node in replicas) for node in nodes}
    return {node: _disks(node, names, settings, varied) for node, names in found.items() if names}


def _asked(settings: Mapping[str, str], node: str, is_replica: bool) -> dict[str, str]:
    """Return the names of a node's settings: {"storage": "source.storage"}."""
    tried = {what: [f"{node}.{what}", *([what] if is_replica else [])] for what in (STORAGE, DISK)}
    return {what: name for what, names in tried.items() for name in reversed(names) if name in settings}


def _disks(node: str, names: dict[str, str], settings: Mapping[str, str], varied: Collection[str]) -> Disks | None:
    level = settings[names[STORAGE]] if STORAGE in names else ALONE
    disk = settings[names[DISK]] if DISK in names else DEFAULT_DISK
    if level != NONE:
        return Disks(level, disk)
    # If levels vary, one of them may be without disks: then a model of disks is no contradiction.
    if DISK in names and (names[DISK] in varied or names[STORAGE] not in varied):
        raise LabError(
            f"{names[DISK]} is {disk}, but {node} has no emulated disks with {names[STORAGE]}=none",
            "a storage level other than none where a disk model is given",
            f"--vary {names[STORAGE]}=single,raid0, or leave out {names[DISK]}",
        )
    return None
