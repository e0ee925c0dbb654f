"""The nodes' current roles and links, and the node that the load writes to, where a failover can change them."""

from collections.abc import Sequence
from contextlib import suppress

from replication_lab import replication
from replication_lab.live.ticking import Ticking
from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.client import ApplicationClient, TransactionAnswer
from replication_lab.world.mysql.server import Server

REFRESH_SECONDS = 0.5


class Route:
    """The node that clients write to now; each client follows a change with its next transaction."""

    def __init__(self, lab: Lab, node: str):
        self._lab, self.node = lab.another(), node
        self._refreshed = clock.timer()

    def connect(self, _node: str) -> "RoutedClient":
        """Return a client with an application's privileges: an administrator could write on a read-only server."""
        return RoutedClient(self)

    def server(self) -> Server:
        """Return the server of that node as it is reached now."""
        # After a restart a server has another port; many clients look for it at the same time.
        if clock.timer() - self._refreshed > REFRESH_SECONDS:
            self._refreshed = clock.timer()
            self._lab.refresh()
        return self._lab.node(self.node).server()


class RoutedClient(ApplicationClient):
    """A client of the ledger that connects again when the route leads to another node."""

    def __init__(self, route: Route):
        super().__init__(lambda: route.server().as_application())
        self._route, self._at = route, route.node

    def transact(self, statements: Sequence[str]) -> TransactionAnswer:
        if self._at != self._route.node:
            self.close()
            self._at = self._route.node
        return super().transact(statements)


EVERY_SECONDS = 5.0
SOURCE, FORMER = "source", "former source"


class Roles:
    """The roles by node. The load follows the source: `route` is changed here."""

    def __init__(self, lab: Lab, route: Route):
        self._kind, self._route = replication.of(lab.another()), route
        self.roles = {node.name: node.role for node in lab.topology.nodes}
        self.links = {link.name: (link.source, link.target) for link in lab.topology.links}
        self.timeout_s: float | None = None
        self._promoted = ""
        self.ticking = Ticking("roles", self._look, EVERY_SECONDS)

    def promoted(self, name: str) -> None:
        """Let clients write on this node, which a viewer promoted."""
        self._promoted, self._route.node = name, name
        self.ticking.wake()

    def _look(self) -> None:
        with suppress(LabError):
            # A restarted container has another port.
            self._kind.lab.refresh()
            found, links = self._kind.arrangement()
            self.links = {name: (source, target) for name, source, target in links}
            # The servers cannot tell a source without replicas, nor one that was replaced.
            role = found.get(self._promoted, "")
            if role == SOURCE or self._kind.was_replaced(role):
                former = [name for name, role in found.items() if role == SOURCE and name != self._promoted]
                found = {**found, self._promoted: SOURCE, **dict.fromkeys(former, FORMER)}
            self.roles = found
            self._route.node = next((name for name, role in self.roles.items() if role == SOURCE), self._route.node)
            self.timeout_s = self._kind.commit_timeout_s(self._route.node)
