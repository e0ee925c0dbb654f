"""What every kind of replication answers: what its nodes say, when they are whole, which of them hold copies."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TypeVar

from replication_lab.model.drill import View
from replication_lab.model.errors import LabError
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

Answer = TypeVar("Answer")
LOOK_SECONDS = 3
SILENT = View(error="does not answer")


class Nodes:
    """The nodes of a lab. A kind says what `view`, `is_whole` and `settle` are, and what else it can tell."""

    # How the nodes are called once nothing is missing.
    whole = "serving"

    def __init__(self, lab: Lab):
        self.lab = lab
        self.names = [node.name for node in lab.topology.nodes]

    def server(self, name: str) -> Server:
        return self.lab.server(name)

    def writer(self) -> Server:
        """Where tables are made."""
        return self.server(self.lab.topology.source.name)

    def of_each(self, ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """What each node answers; all are asked at once."""
        with ThreadPoolExecutor(len(self.names)) as pool:
            return dict(zip(self.names, pool.map(ask, self.names), strict=True))

    def looks(self) -> dict[str, View]:
        """What each node believes now."""
        return self.of_each(self.look)

    def look(self, name: str) -> View:
        """One that is frozen answers nobody, and is not waited for."""
        said: list[View] = []
        asking = threading.Thread(target=lambda: said.append(self._said(name)), daemon=True)
        asking.start()
        asking.join(LOOK_SECONDS)
        return said[0] if said else SILENT

    def _said(self, name: str) -> View:
        try:
            return self.view(name)
        except LabError:
            return SILENT

    def stands(self, name: str) -> bool:
        """Whether nothing is missing at this node; no where it does not answer."""
        with suppress(LabError):
            return self.is_whole(name)
        return False

    def view(self, name: str) -> View:
        raise NotImplementedError

    def is_whole(self, name: str) -> bool:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until every copy holds what was committed when this was asked."""

    def holders(self) -> dict[str, str]:
        """The nodes whose rows can be read, each with the node that its rows come from, or nothing."""
        return dict.fromkeys(self.names, "")

    def counted(self) -> dict[str, int]:
        """What the servers count that a drill compares before and after."""
        return {}

    def compared(self) -> dict[str, int]:
        """What a comparison of the copies below their rows finds, once a drill is over."""
        return {}

    def returned(self, log: str) -> tuple[str, int] | None:
        """How a node came back by what it logged since, and how many writesets it was sent; None if it never left."""
        return None

    def optioned(self, _options: Mapping[str, Sequence[str]]) -> AbstractContextManager[None]:
        """Within the block the replication has a drill's options, where this kind has any."""
        return nullcontext()

    def let_serve(self, name: str) -> None:
        """Let this node be the one that serves, where a lab's start leaves that open."""
        raise LabError(
            f"{self.lab.topology.name} starts as its file says, and not with {name}", "a cluster manager", "./lab drill"
        )

    def promote(self, name: str) -> None:
        """Let this node take the writes in place of the one that did."""
        raise LabError(
            f"{self.lab.topology.name} has nobody to promote", "source and replica, or two machines", "./lab drill"
        )

    def rejoin(self) -> None:
        """Take back those whose place was taken; what only they hold is discarded."""
