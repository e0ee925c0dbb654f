"""The gentle end of nodes: SIGTERM, upon which a server writes back what it has in memory."""

from replication_lab.faults.kill import Kill


class Stop(Kill):
    """Nodes to stop with SIGTERM; undone, the same containers run on the same data."""

    status, said = 0, "stopped"

    def end(self, node: str) -> None:
        self.lab.stop(node)
