"""How the roles of nodes change, the same for every kind of replication; each kind does it or refuses in plain words.

A drill, the live page and the commands failover, switchover, rejoin, standby, online and status use these methods and
no others.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill.evidence import Position
from replication_lab.model.lab.succession import TakenBack, TakenOut, TakenOver
from replication_lab.world.docker.lab import Lab

FAILOVER, SWITCHOVER, REJOIN, STANDBY, ONLINE = "failover", "switchover", "rejoin", "standby", "online"
JOINS = ("a node that starts joins its cluster by itself", "./lab start {node}")
REFUSES = {
    REJOIN: JOINS,
    STANDBY: ("a node leaves its cluster when it is stopped", "./lab stop {node}"),
    ONLINE: JOINS,
}


def quiet(_line: str) -> None:
    """Ignore a message about progress."""


class NodeState(msgspec.Struct, frozen=True):
    """A node's state of replication in words, the nodes that it sees in its cluster, and the same as data by name."""

    says: str
    sees: list[str] = []
    details: dict[str, Any] = {}


class ChangesRoles:
    """Take over, take back, standby, online, state. What a kind does not define is refused, by `refuses`."""

    lab: Lab
    # Why a kind has no such command, and what to type instead, by command.
    refuses: ClassVar[Mapping[str, tuple[str, str]]] = {}
    # Whether the nodes, or their cluster manager, choose by themselves which of them accepts writes.
    elects: ClassVar[bool] = False

    @classmethod
    def can_take_over(cls) -> bool:
        """Return whether a node of this kind can take over from another one."""
        return FAILOVER not in cls.refuses

    def take_over(self, name: str, allow_data_loss: bool = False) -> TakenOver:  # noqa: ARG002 - others do it
        """Let clients write on this node instead; LabError if writes may be lost and that is not allowed."""
        raise self._refusal(FAILOVER, name)

    def take_over_after_loss(self, name: str) -> TakenOver:
        """Let this node take over while the one before is broken, whatever that loses: a drill measures the loss."""
        return self.take_over(name, allow_data_loss=True)

    def adopt(self, name: str, old: str) -> tuple[TakenOver, list[str]]:  # noqa: ARG002 - others do it
        """Finish a failover to this node that a manager made; return what was done, and what was left to do."""
        raise self._refusal(FAILOVER, name)

    def resume_waiting(self) -> list[str]:
        """Let commits wait again where they do not by themselves; return what a person would have had to do."""
        return []

    @classmethod
    def can_switch_over(cls) -> bool:
        """Return whether the node that accepts writes can be changed as planned."""
        return SWITCHOVER not in cls.refuses

    def switch_over(self, name: str) -> TakenOver:
        """Let clients write on this node instead, as planned: nothing is lost, and the other one stays in service.

        Raise LabError if that is not possible; then everything is as it was before.
        """
        raise self._refusal(SWITCHOVER, name)

    def was_replaced(self, _role: str) -> bool:
        """Return whether a node with this role has to be taken back before it can take over."""
        return False

    def take_back(
        self,
        name: str,
        discard_errant: bool = False,  # noqa: ARG002 - others do it
        tell: Tell = quiet,  # noqa: ARG002
    ) -> TakenBack:
        """Take a node back that was replaced; LabError if it has writes of its own that may not be discarded."""
        raise self._refusal(REJOIN, name)

    def standby(self, name: str) -> TakenOut:
        """Take a node out of service; its peer takes over if it served."""
        raise self._refusal(STANDBY, name)

    def online(self, name: str, tell: Tell = quiet) -> TakenBack:  # noqa: ARG002 - others do it
        """Take a node into service again and wait until it is in sync; `tell` gets the progress."""
        raise self._refusal(ONLINE, name)

    def positions(self) -> dict[str, Position]:
        """Return how far each node is that answers; empty where no replica follows a source."""
        return {}

    def state(self, name: str, role: str) -> NodeState:
        """Return the state of a node, which has this role now; LabError if it does not answer."""
        raise NotImplementedError

    def _refusal(self, command: str, name: str) -> LabError:
        why, instead = self.refuses[command]
        return LabError(
            f"{self.lab.name} has no `lab {command}`: {why}",
            "a topology whose nodes change roles that way",
            instead.format(node=self.lab.topology.node(name).name),
        )
