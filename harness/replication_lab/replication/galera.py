"""A Galera cluster: healthy when every node is Synced in one cluster of all nodes."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replication_lab.model.evidence import View
from replication_lab.model.explained import Rule
from replication_lab.model.measuring import Watch
from replication_lab.model.proof import Proof
from replication_lab.probes import galera as galera_probe
from replication_lab.replication import members
from replication_lab.replication.abilities import Counts, ReportsReturns
from replication_lab.replication.kind import Nodes, Settings, added_ms, register
from replication_lab.world.mysql.galera import GaleraNode

PRIMARY = "Primary"
LEFT = re.compile(r"Shifting \w+ -> OPEN|Shifting OPEN -> PRIMARY")
WRITESETS = re.compile(r"Receiving IST: (\d+) writesets")


@register("galera")
class Cluster(Nodes, Counts, ReportsReturns):
    """Members of one group."""

    roles = frozenset({"member"})
    whole = "Synced in one cluster"
    images = ("sidecar",)
    experiment = "galera_vs_semisync"
    restarts_in_turn = True
    instead_of_failover = "every node accepts writes"
    writes_anywhere = True
    waits_on = "farthest"
    why_fixed = "it is a cluster"
    good = PRIMARY
    rules = (
        *members.RULES,
        Rule(
            lambda _: True, lambda now: f"{now.node} answers a commit once every node of the cluster has received it."
        ),
    )

    @classmethod
    def accepts_writes(cls, state: str) -> bool:
        return state == PRIMARY

    def view(self, name: str) -> View:
        found = GaleraNode(self.server(name)).status()
        return View(PRIMARY if found.primary else "non-Primary", found.size, found.history)

    def describe(self, name: str, _role: str) -> tuple[str, list[str]]:
        """Return a node's view of its cluster, in words, and the nodes that it sees in it."""
        found = GaleraNode(self.server(name)).status()
        names = {address: node for node in self.names for address in self.lab.node(node).addresses()}
        cluster = sorted(names.get(address, address) for address in found.addresses)
        # A group without a majority still lists the nodes that it has lost.
        seen = f"{found.size} node(s)" if found.size != len(cluster) else " ".join(cluster)
        said = [f"{found.state}, {'Primary' if found.primary else 'non-Primary: refuses statements'}, sees {seen}"]
        if found.replication_ms:
            said.append(f"average group latency {found.replication_ms[1]:.1f} ms")
        said.append(
            f"{found.cert_failures} certification failures, {found.bf_aborts} aborted by other nodes, "
            f"paused {found.paused_ms:.0f} ms by flow control"
        )
        return "; ".join(said), cluster

    def is_whole(self, name: str) -> bool:
        found = GaleraNode(self.server(name)).status()
        return found.synced and found.size == len(self.names)

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        """Prove one cluster of all, a commit that waits for the group, and a row that every node has."""
        first = self.writer()
        # A commit is answered once all nodes have its writeset.
        longest = max(self.round_trips(first.name, toxics))
        return [
            self._prove_one_cluster(),
            self.prove_commit_waits(first, "the group", longest),
            self.prove_rows_arrive(first, "the source"),
        ]

    def _prove_one_cluster(self) -> Proof:
        size = len(self.names)
        found = {name: GaleraNode(self.server(name)).status() for name in self.names}
        histories = {view.history for view in found.values()}
        said = ", ".join(f"{name} {view.state}" for name, view in found.items())
        whole = all(view.synced and view.size == size for view in found.values())
        return Proof(f"one cluster of {size}", f"{said}; {len(histories)} history", whole and len(histories) == 1)

    def wait_until_level(self) -> None:
        self.of_each(lambda name: GaleraNode(self.server(name)).wait_for_writesets())

    def counted(self) -> dict[str, int]:
        found = [GaleraNode(self.server(name)).status() for name in self.names]
        return {
            "cert_failures": sum(one.cert_failures for one in found),
            "bf_aborts": sum(one.bf_aborts for one in found),
        }

    @contextmanager
    def arranged(self, settings: Settings) -> Iterator[Watch]:
        servers = [self.server(name) for name in self.names]
        galera_probe.wait_until_synced(servers, len(servers))
        yield galera_probe.Watch(servers, added_ms(settings), throttled=False)

    def transactions(self, name: str) -> int | None:
        return GaleraNode(self.server(name)).status().last_committed

    def returned(self, log: str) -> tuple[str, int] | None:
        return how_returned(log)


def how_returned(log: str) -> tuple[str, int] | None:
    """Return how a node came back by its log: (IST, SST, led or nothing; writesets it was sent); None if it never left.

    "nothing" means that the node had missed nothing.
    """
    if "[galera] leads" in log:
        return "led", 0
    if not LEFT.search(log):
        return None
    writesets = sum(map(int, WRITESETS.findall(log)))
    if "SST completed on joiner" in log:
        return "SST", writesets
    return ("IST", writesets) if writesets else ("nothing", 0)
