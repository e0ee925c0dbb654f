"""The description of a kind of fault: what it acts on, which settings it takes, what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.lab.topology import Topology

NODES, LINKS = "nodes", "links"
Value = int | float | str


@dataclass(frozen=True)
class Setting:
    """A setting in a drill's step that only one kind of fault has.

    `said` is how an error message names a value of the setting. `unset` is its default. `check` raises LabError for a
    bad value; it gets the path of the drill's file for the message.
    """

    name: str
    unset: Value
    said: str
    check: Callable[[str, Any], object]

    def refusal(self, where: str, fault: str, value: object, expected: str) -> LabError:
        return LabError(f"{where}: {fault} with {self.said.format(value)}", expected, "./lab drill")


@dataclass(frozen=True)
class Need:
    """A requirement of a fault: a check of a topology's targets, and the error if they do not meet it.

    `nodes` is the name for nodes that meet it. `refusal` may use {fault}, {topology} and {manager}.
    """

    nodes: str
    is_met: Callable[[Topology, Sequence[str]], bool]
    refusal: str
    expected: str


UNMANAGED = Need(
    "machines without a cluster manager",
    lambda topology, _: not topology.manager,
    "{fault} under {manager}",
    "a topology without a cluster manager, which would interfere",
)
EMULATED_DISKS = Need(
    "nodes with disks of their own",
    lambda topology, targets: set(targets) <= set(topology.storage),
    "{fault} in {topology}, where not every target has disks of its own",
    "nodes of the topology raid, or the key storage",
)


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault, by the name that a drill gives it.

    `does` and `proof` are for the table of docs/drills.md. `ends_servers` means that the fault ends server processes,
    so that their counters restart at zero.
    """

    name: str
    does: str
    proof: str
    acts_on: str = NODES
    settings: tuple[Setting, ...] = ()
    needs: tuple[Need, ...] = ()
    one_target: bool = False
    ends_servers: bool = False
    moves_clocks: bool = False

    @property
    def targets(self) -> str:
        """The targets that it takes, in words."""
        if self.acts_on == LINKS:
            return "links, or nodes (all links of each)"
        return f"one of the {self._nodes}" if self.one_target else self._nodes

    @property
    def _nodes(self) -> str:
        return self.needs[0].nodes if self.needs else NODES

    def check_settings(self, where: str, given: Mapping[str, Value], kinds: Mapping[str, "FaultKind"]) -> None:
        """Refuse a setting of another kind, and a value of its own that does not fit."""
        mine = {setting.name for setting in self.settings}
        for other in kinds.values():
            for setting in other.settings:
                if setting.name in given and setting.name not in mine:
                    expected = f"no {setting.name}, which {other.name} takes"
                    raise setting.refusal(where, self.name, given[setting.name], expected)
        for setting in self.settings:
            value = given.get(setting.name, setting.unset)
            with as_lab_error(
                msgspec.ValidationError,
                f"{where}: {setting.name}",
                "only the keys that docs/drills.md lists",
                "./lab drill",
            ):
                msgspec.convert(value, type(setting.unset))
            setting.check(where, value)

    def check_targets(self, where: str, topology: Topology, targets: Sequence[str]) -> None:
        """Refuse targets that are not in the topology, or lack what the fault needs."""
        if not targets:
            raise LabError(f"{where}: {self.name} has no targets", f"a list of {self.acts_on}", "./lab drill")
        if self.acts_on == NODES:
            for name in targets:
                topology.node(name)
        elif not links_of(topology, targets):
            found = f"{where}: {self.name} on {', '.join(targets)}, which has no link"
            raise LabError(found, "links, or nodes with links", "./lab drill")
        for need in self.needs:
            if not need.is_met(topology, targets):
                found = need.refusal.format(fault=self.name, topology=topology.name, manager=topology.manager)
                raise LabError(f"{where}: {found}", need.expected, "./lab drill")
        if self.one_target and len(targets) != 1:
            raise LabError(f"{where}: {self.name} on {len(targets)} {self._nodes}", "exactly one", "./lab drill")


def links_of(topology: Topology, names: Sequence[str]) -> list[str]:
    """Return the links named directly or by their nodes, in the topology's order; LabError for any other name."""
    nodes = {node.name for node in topology.nodes}
    for name in names:
        if name not in nodes:
            topology.link(name)
    return [link.name for link in topology.links if {link.name, link.source, link.target} & set(names)]
