"""A Galera cluster: whole when every node is Synced in a cluster of all."""

import re

from replication_lab.model.drill import View
from replication_lab.replication.kind import Nodes

LEFT = re.compile(r"Shifting \w+ -> OPEN|Shifting OPEN -> PRIMARY")
WRITESETS = re.compile(r"Receiving IST: (\d+) writesets")


class Cluster(Nodes):
    """Members of one group."""

    whole = "Synced in one cluster"

    def view(self, name: str) -> View:
        found = self.server(name).galera()
        return View("Primary" if found.primary else "non-Primary", found.size, found.history)

    def is_whole(self, name: str) -> bool:
        found = self.server(name).galera()
        return found.synced and found.size == len(self.names)

    def settle(self) -> None:
        for name in self.names:
            self.server(name).wait_for_writesets()

    def counted(self) -> dict[str, int]:
        found = [self.server(name).galera() for name in self.names]
        return {
            "cert_failures": sum(one.cert_failures for one in found),
            "bf_aborts": sum(one.bf_aborts for one in found),
        }

    def returned(self, log: str) -> tuple[str, int] | None:
        return how_returned(log)


def how_returned(log: str) -> tuple[str, int] | None:
    """How a node came back by what it logged: (IST, SST, led or nothing; writesets it was sent), None if it never left.

    "nothing" is what a node needed that had missed nothing.
    """
    if "[galera] leads" in log:
        return "led", 0
    if not LEFT.search(log):
        return None
    writesets = sum(map(int, WRITESETS.findall(log)))
    if "SST completed on joiner" in log:
        return "SST", writesets
    return ("IST", writesets) if writesets else ("nothing", 0)
