"""What only some kinds of replication can do: one class for each ability, which a kind inherits beside `Nodes`.

Callers ask with isinstance, or with issubclass before a lab is up.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from replication_lab.world.disks.spindle import Spindle


class RunsMachines(ABC):
    """Each node is a virtual machine, with a disk of its own that other storage cannot replace."""

    @abstractmethod
    def machines(self) -> dict[str, str]:
        """Return the launcher of each node's machine."""

    @abstractmethod
    def disks(self, name: str) -> dict[str, Spindle]:
        """Return the emulated disks under replication at a node, by name."""


class Promotes(ABC):
    """Another node can be promoted in place of the one that accepted writes."""

    @abstractmethod
    def promote(self, name: str) -> str:
        """Promote this node; return in words what it is known to lack."""

    @abstractmethod
    def rejoin(self) -> None:
        """Take back the nodes that were replaced; discard their errant transactions."""


class TakesOver(ABC):
    """A node can be made the one that accepts writes while a lab is used, and a former one be taken back."""

    @abstractmethod
    def take_over(self, name: str, allow_data_loss: bool) -> str:
        """Let clients write on this node; return in words what it is known to lack.

        LabError if writes may be lost and that is not allowed.
        """

    def was_replaced(self, _role: str) -> bool:
        """Return whether a node with this role has to be taken back before it can take over."""
        return False

    def take_back(self, name: str, discard_errant: bool) -> None:  # noqa: B027 - most kinds take a node back by themselves
        """Take a node back that was replaced; LabError if it has writes of its own that may not be discarded."""


class ChoosesServer(ABC):
    """A lab's start leaves open which node serves."""

    @abstractmethod
    def let_serve(self, name: str) -> None:
        """Let this node be the one that serves."""


class TakesOptions(ABC):
    """The replication has options that a drill may change."""

    # The kinds of options, as a drill's file names them.
    options: ClassVar[Sequence[str]]

    @abstractmethod
    def optioned(self, options: Mapping[str, Sequence[str]]) -> AbstractContextManager[None]:
        """Set options, by kind, within the block."""


class ComparesDisks(ABC):
    """Copies can be compared below their rows."""

    @abstractmethod
    def compared(self) -> dict[str, int]:
        """Return the result of comparing the copies."""


class ReportsReturns(ABC):
    """A node's log tells how it came back."""

    @abstractmethod
    def returned(self, log: str) -> tuple[str, int] | None:
        """Return how a node came back by its log since then, and the writesets it was sent; None if it never left."""


class CountsEvents(ABC):
    """The servers count events that a drill compares before and after."""

    @abstractmethod
    def counted(self) -> dict[str, int]:
        """Return the counters."""
