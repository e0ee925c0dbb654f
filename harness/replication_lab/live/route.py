"""Where the load's clients write: at one node, and after a promotion at another one, as behind a service's address."""

from collections.abc import Callable, Sequence

from replication_lab.workloads.ledger import Transacts
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
        return RoutedClient(self, lambda: self._server().as_application())

    def _server(self) -> Server:
        # After a restart a server has another port; many clients look for it at the same time.
        if clock.timer() - self._refreshed > REFRESH_SECONDS:
            self._refreshed = clock.timer()
            self._lab.refresh()
        return self._lab.node(self.node).server()


class RoutedClient(Transacts):
    """A client of the ledger that connects again when the route leads to another node."""

    def __init__(self, route: Route, find: Callable):
        self._route, self._client, self._at = route, ApplicationClient(find), route.node

    def transact(self, statements: Sequence[str]) -> TransactionAnswer:
        if self._at != self._route.node:
            self._client.close()
            self._at = self._route.node
        return self._client.transact(statements)

    def look(self, query: str) -> int | None:
        return self._client.look(query)

    def close(self) -> None:
        self._client.close()
