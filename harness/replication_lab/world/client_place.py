"""Where clients and probes run: in this process, or in a process beside the nodes (world/docker/beside_nodes.py)."""

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class ClientPlace:
    """Makes objects where clients run: in this process, or as a subclass does, in another one.

    Their methods take and return plain values, and the clock there is another one. A method that reports while it runs
    has a parameter `write`, which gets bytes.
    """

    @property
    def ahead(self) -> float:
        """By how many seconds the clock's timer there is ahead of this process's now."""
        return 0.0

    def make(self, kind: Callable[..., Made], *arguments: Any) -> Made:
        """Make an object there; LabError for whatever its making raises in another process."""
        return kind(*arguments)

    def call(self, what: Callable[..., Made], *arguments: Any) -> Made:
        """Call a function there; LabError for whatever it raises in another process."""
        return what(*arguments)


HERE = ClientPlace()
