"""The storage of a node: how many disks, of which model, and the RAID level."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name

# The data directory of every server.
DATA = "/var/lib/mysql"
# The RAID level of a node with a single disk.
ALONE = "single"
LEVELS = (ALONE, "raid0", "raid1")
AUTO = "auto"
MOST_DISKS = 8
# MiB for an empty data directory, its logs and a test's rows, plus the space that btrfs needs to rebuild a disk.
LEAST_MIB = 1024
USAGE = "./lab up --help"


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements of a backend on the host's kernel: file systems, device nodes, other files."""

    filesystems: list[str] = []
    devices: list[str] = []
    files: list[str] = []


class Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How arrays are made: x-storage of compose/storage/NAME.yaml; `module` adds a missing driver to a kernel."""

    about: str
    needs: Needs
    filesystem: str
    options: list[str]
    module: str


class Storage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node's storage: `disks` disks named in compose/storage/disks.yaml, of `mib` MiB each, joined as `level` says.

    `place` names its services and its volume while the node's own name is taken: during and after a migration.
    `launcher` is the program that runs the machine of backend vm; compare figures only between equal launchers. Raise
    LabError on creation for invalid values.
    """

    level: str
    disk: str = "ssd"
    disks: int = 0
    mib: int = 2048
    backend: str = AUTO
    place: str = ""
    launcher: str = ""

    def __post_init__(self) -> None:
        refuse_unknown("level of storage", self.level, LEVELS, USAGE)
        least, most = (1, 1) if self.level == ALONE else (2, MOST_DISKS)
        if not least <= self.members <= most:
            expected = "1 disk" if most == 1 else f"{least} to {most} disks"
            raise LabError(f"{self.level} of {self.disks} disk(s)", expected, USAGE)
        if self.mib < LEAST_MIB:
            expected = f"{LEAST_MIB} MiB or more, for a server's files and some rows"
            raise LabError(f"the size of a disk is {self.mib} MiB", expected, USAGE)

    @property
    def members(self) -> int:
        return self.disks or (1 if self.level == ALONE else 2)

    @property
    def by(self) -> str:
        """The backend as tables and reports name it."""
        return f"{self.backend} ({self.launcher})" if self.launcher else self.backend

    @property
    def room_mib(self) -> int:
        """Its capacity in MiB, before the file system's own use."""
        return self.mib * (self.members if self.level == "raid0" else 1)

    @property
    def survives(self) -> int:
        """The number of members that may fail without any loss."""
        return self.members - 1 if self.level == "raid1" else 0


class DiskOptions(TypedDict, total=False):
    """The settings that the disks of all nodes share; the names are those of Storage's fields."""

    disk: str
    disks: int
    mib: int
    backend: str


def parse_storage(
    texts: Sequence[str], nodes: Sequence[str], replicas: Sequence[str], **common: Unpack[DiskOptions]
) -> dict[str, Storage]:
    """Return {node: Storage} from [NODE=]LEVEL[:DISKS] texts; a level without a node applies to all replicas."""
    wanted: dict[str, Storage] = {}
    for text in texts:
        node, equals, level = text.rpartition("=")
        if equals and node not in nodes:
            raise unknown_name("node", node, nodes, USAGE)
        if not (equals or replicas):
            raise LabError(
                f"{text} is for all replicas, but this topology has none",
                f"one of {', '.join(nodes)}",
                f"{nodes[0]}={text}",
            )
        for each in [node] if equals else replicas:
            wanted[each] = _storage(level, common)
    return wanted


def _storage(text: str, common: DiskOptions) -> Storage:
    level, colon, number = text.partition(":")
    if not colon:
        return Storage(level=level, **common)
    if not number.isdecimal():
        raise LabError(f"{text!r} has no valid number of disks", "LEVEL:DISKS, such as raid0:3", USAGE)
    if common.get("disks", 0) not in (0, int(number)):
        both = f"{text} and --disks {common['disks']}"
        raise LabError(
            f"{both} give different numbers of disks", "one of the two", f"leave out --disks {common['disks']}"
        )
    counted: DiskOptions = {**common, "disks": int(number)}
    return Storage(level=level, **counted)
