"""A failover manager: a program, or a person, that lets a replica take over when the source is lost."""

from collections.abc import Sequence

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.companion import CompanionSetting
from replication_lab.model.lab.topology import Topology

# What a setting calls it: MANAGER.NAME.
MANAGER = "manager"
# The setting of a manager that is a person: the seconds until that person acts.
AFTER = "after"


class ManagerKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file compose/managers/NAME.yaml. Without an `image` the manager is a person, who uses `lab failover`.

    `image` is in images/, and the name of a service, too; a vendor's has a slash, and the service is called after what
    follows it. With `beside_nodes` each node has its own, IMAGE-NODE, whose network the node uses. `replication` and
    `engines` are what it can manage; no `engines` stand for every one. With `relays` a replica may follow another one.
    With `named_links` it tells a replica to follow a node by that node's name and own port, and packet rules beside
    each node lead that to the link between them.

    These commands run in its container: `view` prints the nodes that it manages, one a line with its role (source
    or replica) before it; `manage` lets it act, and `quiet` lets it only observe, which it does until `manage` is
    called. `switchover` makes a planned change, with the new source's name behind it. A manager without one says in
    `no_switchover` what an operator does instead.

    `within` is how many seconds a failover may take until none is expected any more; `settles` for how many
    seconds after a fault it may still act because of it.
    """

    about: str
    image: str = ""
    beside_nodes: bool = False
    replication: tuple[str, ...] = ("async", "semisync")
    engines: list[str] = []
    relays: bool = False
    named_links: bool = False
    view: list[str] = []
    manage: list[str] = []
    quiet: list[str] = []
    switchover: list[str] = []
    no_switchover: str = ""
    within: int = 60
    settles: int = 10
    settings: dict[str, CompanionSetting] = {}

    def services(self, nodes: Sequence[str]) -> list[str]:
        """Return the names of its services."""
        name = self.image.rpartition("/")[2].partition(":")[0]
        return [f"{name}-{node}" for node in nodes] if self.beside_nodes else [name]


def refuse_unmanageable(name: str, kind: ManagerKind, topology: Topology, engines: Sequence[str]) -> None:
    """Raise LabError if the manager cannot manage a topology, or one of the engines of its nodes."""
    if topology.replication not in kind.replication:
        raise LabError(
            f"the manager {name} for {topology.name}, whose nodes replicate by {topology.replication}",
            f"a topology with {' or '.join(kind.replication)}",
            f"./lab up semisync --manager {name}",
        )
    relays = [node.name for node in topology.nodes if node.role == "relay"]
    if relays and not kind.relays:
        raise LabError(
            f"the manager {name} for {topology.name}, where {relays[0]} is a relay",
            "replicas that all replicate from the source",
            f"./lab up semisync --manager {name}",
        )
    unfit = [engine for engine in engines if kind.engines and engine not in kind.engines]
    if unfit:
        raise LabError(
            f"the manager {name} for {unfit[0]}",
            f"one of {', '.join(kind.engines)}",
            f"./lab up {topology.name} --engine {kind.engines[0]} --manager {name}",
        )


def refuse_unable_manager(name: str, kind: ManagerKind) -> None:
    """Raise LabError if the manager cannot make a planned change of the source."""
    if not kind.switchover:
        raise LabError(
            f"the manager {name} has no planned switchover: {kind.no_switchover}",
            "a manager that has one, or a lab without a manager",
            "./lab switchover --help",
        )


def roles_in(text: str) -> dict[str, str]:
    """Return each node's role by the lines that a manager's view printed: a role, then a node."""
    words = (line.partition(" ") for line in text.splitlines())
    return {node.strip(): role for role, _, node in words if role in ("source", "replica")}
