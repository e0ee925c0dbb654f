"""One server that nobody follows: it is whole when it serves."""

from replication_lab.model.drill import View
from replication_lab.replication.kind import Nodes


class Alone(Nodes):
    """A topology without replication."""

    def view(self, name: str) -> View:
        self.server(name).version()
        return View("serving")

    def is_whole(self, name: str) -> bool:
        return bool(self.server(name).version())
