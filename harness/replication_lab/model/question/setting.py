"""The settings of a question by name: what each sets, and on which node. No other file looks into a name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from replication_lab.model.core.variable import is_same
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.manager import MANAGER

Values = dict[str, str]

CLIENTS, RATE, RTT, TOPOLOGY, ENGINE, PROTOCOL = "clients", "rate", "rtt", "topology", "engine", "protocol"
# The settings with few possible values.
CHOICES = {
    "replication": ("none", "async", "semisync"),
    "wait_point": ("AFTER_SYNC", "AFTER_COMMIT"),
    PROTOCOL: ("A", "B", "C"),
}
# The settings of a whole case, as those of its endpoint (ENDPOINT.NAME) and its manager are. All others are of servers,
# or of the disks of their nodes.
OWN = (CLIENTS, RATE, RTT, *CHOICES, TOPOLOGY, ENGINE, ENDPOINT, MANAGER)
# The settings of nodes that are no server's variables: a my.cnf file, and the emulated disks of their data.
CNF, STORAGE, DISK = "cnf", "storage", "disk"
# The value of CNF for a node without a file of the user, and of STORAGE for one without emulated disks.
NONE = "none"
# The values of RTT for a link without a toxic.
BARE = ("0", "0ms", "none", "lan")

# A value goes into an SQL statement.
VARIABLE = re.compile(r"(?:(?P<node>[a-z][a-z0-9-]*)\.)?(?P<name>[a-z][a-z0-9_]*)")
VALUE = re.compile(r"[\w.:/+-]+")


@dataclass(frozen=True)
class AskedSetting:
    """The name of a setting: `what` it sets, and on which node; an empty node stands for every node that can have it.

    `what` is a name in OWN, CNF, STORAGE, DISK, or a server's variable.
    """

    name: str
    node: str
    what: str

    @property
    def is_of_case(self) -> bool:
        return self.name in OWN or self.node in (ENDPOINT, MANAGER)

    @property
    def is_file(self) -> bool:
        return self.what == CNF

    @property
    def is_of_disks(self) -> bool:
        return self.what in (STORAGE, DISK)

    @property
    def is_variable(self) -> bool:
        return not (self.is_of_case or self.is_file or self.is_of_disks)

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two values mean the same: 0 and OFF of a variable, 0 and 0ms of a round trip."""
        if one == other or (self.name == RTT and is_bare(one) and is_bare(other)):
            return True
        return (self.is_variable or self.name == CLIENTS) and is_same(one, other)


def setting(name: str) -> AskedSetting:
    """Return what a name such as `clients`, `sync_binlog` or `source.disk` sets."""
    node, _, what = name.rpartition(".")
    return AskedSetting(name, node, what)


def is_bare(trip: str) -> bool:
    """Return whether a round trip means a link without a toxic."""
    return trip in BARE


def named(values: Mapping[str, str]) -> str:
    """Return the name of a case with these values."""
    return ",".join(f"{name}={value}" for name, value in values.items())
