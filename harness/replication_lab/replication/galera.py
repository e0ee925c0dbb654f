"""A Galera cluster: whole when every node is Synced in a cluster of all."""

import re
from collections.abc import Mapping

from replication_lab.model.drill import View
from replication_lab.replication.kind import Nodes, register
from replication_lab.world.docker.lab import Proof

LEFT = re.compile(r"Shifting \w+ -> OPEN|Shifting OPEN -> PRIMARY")
WRITESETS = re.compile(r"Receiving IST: (\d+) writesets")


@register("galera")
class Cluster(Nodes):
    """Members of one group."""

    whole = "Synced in one cluster"
    images = ("sidecar",)

    def view(self, name: str) -> View:
        found = self.server(name).galera()
        return View("Primary" if found.primary else "non-Primary", found.size, found.history)

    def is_whole(self, name: str) -> bool:
        found = self.server(name).galera()
        return found.synced and found.size == len(self.names)

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        """Prove one cluster of all, a commit that waits for the group, and a row that every node has."""
        first = self.writer()
        # A commit is answered once all nodes have its writeset.
        longest = max(self.round_trips(first.name, toxics))
        return [
            self._prove_one_cluster(),
            self.prove_commit_waits(first, "the group", longest),
            *super().prove(toxics),
        ]

    def _prove_one_cluster(self) -> Proof:
        size = len(self.names)
        found = {name: self.server(name).galera() for name in self.names}
        histories = {view.history for view in found.values()}
        said = ", ".join(f"{name} {view.state}" for name, view in found.items())
        whole = all(view.synced and view.size == size for view in found.values())
        return Proof(f"one cluster of {size}", f"{said}; {len(histories)} history", whole and len(histories) == 1)

    def wait_until_level(self) -> None:
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
