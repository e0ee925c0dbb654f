"""The base of faults that are a state of a server, made by SQL: a witness reads it as long as the fault acts."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from replication_lab.faults._nodes import OnNodes
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import Need
from replication_lab.witnesses import servers
from replication_lab.world import clock
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server

REPLICAS = Need(
    "replicas of a source",
    lambda topology, targets: topology.replication in ("async", "semisync") and set(targets) <= set(topology.sources),
    "{fault} in {topology}, where not every target replicates from a source",
    "replicas, as in the topology async",
)

UNDONE_SECONDS = 60


class OnServers(OnNodes):
    """A fault of the state of servers; another program that ends it, for however short a time, is seen."""

    # What a server is while the fault acts, in words.
    state = ""
    # And after the recovery.
    afterwards = "as before"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        if isinstance(lab, AttachedLab):
            raise LabError(
                f"{lab.name} is an attached project: its replication and its locks are not changed",
                "a fault of its nodes or links, such as kill, pause, cut and toxic",
                "./lab drill",
            )

    def inject(self) -> None:
        self.each(self._begin)

    def _begin(self, node: str) -> None:
        self.begin(node)
        servers.hold(self.lab, node, self, partial(self.contrary, node))

    def begin(self, node: str) -> None:
        """Bring one server into the state."""
        raise NotImplementedError

    def contrary(self, node: str, server: Server) -> str:
        """Return in words how a node's server is not in the state; an empty string if it is. It only reads."""
        raise NotImplementedError

    def acts(self, node: str) -> Proof:
        found = self.contrary(node, self.server(node))
        return Proof.same(f"{node}: {self.state}", found or self.state, self.state)

    def recover(self) -> None:
        self.release()
        self.each(self.end)

    def end(self, node: str) -> None:
        """Undo what `begin` did to one server, also if it did only a part."""
        raise NotImplementedError

    def hindrance(self, node: str) -> str:
        """Return in words what is left of the fault on a node; an empty string if nothing is."""
        raise NotImplementedError

    def wait_for_state(self, node: str, what: str, seconds: float) -> None:
        """Wait until a node is in the state that another statement, or another node, brings it into."""
        clock.wait_until(lambda: not self.contrary(node, self.server(node)), what, seconds)

    def is_undone(self, node: str) -> Proof:
        """Wait until nothing is left of the fault: a thread takes a moment to start. Prove it."""
        wanted = self.afterwards
        with suppress(LabError):
            clock.wait_until(lambda: not self.hindrance(node), f"{node} to be {wanted}", UNDONE_SECONDS, every=0.1)
        found = self.hindrance(node)
        return Proof.same(f"{node} is {wanted}", found or wanted, wanted)

    def release(self) -> None:
        """Let the witness expect the state no longer."""
        for node in self.nodes:
            servers.release(self.lab, node, self)

    def close(self) -> None:
        self.release()

    def server(self, node: str) -> Server:
        return self.lab.node(node).server()

    def replica(self, node: str) -> Replica:
        return Replica(self.server(node))


class StaysOnServers(OnServers):
    """A change of servers that stays: recovery undoes nothing, and the state has to be there still."""

    def end(self, node: str) -> None:
        """Do nothing."""

    def hindrance(self, node: str) -> str:
        return self.contrary(node, self.server(node))
