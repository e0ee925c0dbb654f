"""A Galera cluster: healthy when every node is Synced in one cluster of all nodes."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes import galera as galera_probe
from replication_lab.probes.bottleneck import QueueLoad
from replication_lab.replication import role_changes
from replication_lab.replication.kind import Nodes, register
from replication_lab.replication.role_changes import FAILOVER, SWITCHOVER, NodeState
from replication_lab.world import at_once
from replication_lab.world.mysql.galera import GaleraNode, GaleraStatus
from replication_lab.world.mysql.server import Server

PRIMARY = "Primary"
APART = "two clusters, written separately"
# So much is read within a moment.
SMALL_BYTES = 16 << 20
LEFT = re.compile(r"Shifting \w+ -> OPEN|Shifting OPEN -> PRIMARY")
WRITESETS = re.compile(r"Receiving IST: (\d+) writesets")


@register("galera")
class GaleraCluster(Nodes):
    """Members of one group."""

    roles = frozenset({"member"})
    whole = "Synced in one cluster"
    images = ("sidecar",)
    experiment = "galera_vs_semisync"
    restarts_in_turn = True
    replicates_between_versions = True
    refuses = role_changes.REFUSES | dict.fromkeys((FAILOVER, SWITCHOVER), ("every node accepts writes", "./lab env"))
    writes_anywhere = True
    waits_on = "farthest"
    why_fixed = "it is a cluster"
    good = PRIMARY
    explains = "galera"

    @classmethod
    def accepts_writes(cls, state: str) -> bool:
        return state == PRIMARY

    def view(self, name: str) -> View:
        found = GaleraNode(self.server(name)).status()
        queues = {"receive": found.queue, "send": found.unsent}
        return View(PRIMARY if found.primary else "non-Primary", found.size, found.history, queues=queues)

    def state(self, name: str, _role: str) -> NodeState:
        found = GaleraNode(self.server(name)).status()
        names = {address: node for node in self.names for address in self.lab.node(node).addresses()}
        cluster = sorted(names.get(address, address) for address in found.addresses)
        # A group without a majority still lists the nodes that it has lost.
        seen = f"{found.size} node(s)" if found.size != len(cluster) else " ".join(cluster)
        said = [f"{found.state}, {'Primary' if found.primary else 'non-Primary: refuses statements'}, sees {seen}"]
        if found.replication_ms:
            said.append(f"average group latency {three_digits(found.replication_ms[1])} ms")
        said.append(
            f"{found.cert_failures} certification failures, {found.bf_aborts} aborted by other nodes, "
            f"paused {found.paused_ms:.0f} ms by flow control"
        )
        return NodeState("; ".join(said), cluster)

    def hindrance(self, name: str) -> str:
        node = GaleraNode(self.server(name))
        found = node.status()
        if not (found.ready and found.primary):
            return f"{found.state}, {'' if found.primary else 'non-'}Primary"
        try:
            # A node that was frozen has its last view for a moment, though its cluster has excluded it.
            node.wait_for_writesets()
        except LabError as error:
            return f"does not reach its cluster: {error.found}"
        return ""

    def _statuses(self) -> dict[str, GaleraStatus]:
        return self.answering(lambda name: GaleraNode(self.server(name)).status())

    def queues(self) -> dict[str, QueueLoad]:
        limits = self.answering(lambda name: int(GaleraNode(self.server(name)).provider_options()["gcs.fc_limit"]))
        return {
            name: QueueLoad(found.queue, limits[name], found.stops, found.paused_ms / 1000)
            for name, found in self._statuses().items()
            if name in limits
        }

    def lost_majority(self) -> LabError | None:
        found = self._statuses()
        if not found or any(each.primary for each in found.values()):
            return None
        newest = max(found, key=lambda name: found[name].last_committed)
        bootstrap = GaleraNode(self.server(newest)).bootstrap
        return LabError(
            f"no majority: {', '.join(found)} non-Primary",
            "a Primary component",
            f'if no other node accepts writes: ./lab sql {newest} --lab {self.lab.name} -e "{bootstrap}"',
        )

    def separate_histories(self, small: bool = False) -> list[str]:
        primary = self._primary()
        return [said] if (said := _apart(primary)) else self._unequal(list(primary), small)

    def _primary(self) -> dict[str, GaleraStatus]:
        return {name: each for name, each in self._statuses().items() if each.primary}

    def ended(self, _name: str) -> str:
        """Return that two clusters were made of one: they do not join again by themselves."""
        return _apart(self._primary())

    def _unequal(self, names: list[str], small: bool) -> list[str]:
        """Compare the rows of nodes; return nothing if a transaction was committed meanwhile."""
        servers = [self.server(name) for name in names]
        if small and any(GaleraNode(server).stored_bytes() > SMALL_BYTES for server in servers):
            return []
        if not small:
            # At once: across a WAN each takes more than a round trip.
            at_once.of_each(lambda server: GaleraNode(server).wait_for_writesets(), servers)
        before = self._committed(servers)
        differing = [said for server in servers[1:] if (said := self.difference(server, servers[0]))]
        quiet = before == self._committed(servers) and len(set(before)) == 1
        return [f"{APART}, or by sessions with wsrep_on=OFF: {said}" for said in differing if quiet]

    def _committed(self, servers: list[Server]) -> list[int]:
        return [GaleraNode(server).status().last_committed for server in servers]

    def tables_of(self, server: Server) -> list[str]:
        # Galera replicates no others.
        return server.tables("InnoDB")

    def wait_until_together(self) -> None:
        super().wait_until_together()
        self.refuse_separate_histories()

    def is_whole(self, name: str) -> bool:
        found = GaleraNode(self.server(name)).status()
        return found.synced and found.size == self._size

    @property
    def _size(self) -> int:
        """The number of the cluster's members: an arbitrator is one."""
        return len(self.names) + len(self.lab.topology.arbitrators)

    def prove(self, toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove one cluster of all, a commit that waits for the group, and a row that every node has."""
        first = self.writer()
        # A commit is answered once all nodes have its writeset.
        longest = max(self.round_trips(first.name, toxics))
        self.refuse_separate_histories()
        size = self._size
        found = {name: GaleraNode(self.server(name)).status() for name in self.names}
        histories = {view.history for view in found.values()}
        said = ", ".join(f"{name} {view.state}" for name, view in found.items())
        whole = all(view.synced and view.size == size for view in found.values())
        return [
            Proof(f"one cluster of {size}", f"{said}; {len(histories)} history", whole and len(histories) == 1),
            self.prove_commit_waits(first, "the group", longest),
            self.prove_rows_arrive(first, "the source"),
        ]

    def wait_until_caught_up(self) -> None:
        self.of_each(lambda name: GaleraNode(self.server(name)).wait_for_writesets())

    def counted(self) -> dict[str, int]:
        found = {name: GaleraNode(self.server(name)).status() for name in self.names}
        return {
            "cert_failures": sum(one.cert_failures for one in found.values()),
            "bf_aborts": sum(one.bf_aborts for one in found.values()),
            **{f"flow_control_paused_ms.{name}": round(one.paused_ms) for name, one in found.items()},
            **{f"flow_control_stops.{name}": one.stops for name, one in found.items()},
        }

    @contextmanager
    def arranged(self, case: Case) -> Iterator[Watch]:
        servers = [self.server(name) for name in self.names]
        galera_probe.wait_until_synced(servers, len(servers))
        yield galera_probe.GaleraWatch(servers, case.added_ms, throttled=False)

    def transactions(self, name: str) -> int | None:
        return GaleraNode(self.server(name)).status().last_committed

    @staticmethod
    def returned(log: str) -> tuple[str, int] | None:
        """Return how a node came back by its log: (IST, SST, led or nothing; writesets it got); None if it never left.

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


def _apart(primary: Mapping[str, GaleraStatus]) -> str:
    """Return in words that nodes in a Primary component are in different ones; an empty string if they are in one."""
    clusters = {each.addresses for each in primary.values()}
    apart = [one for one in clusters if not any(set(one) & set(other) for other in clusters - {one})]
    if len(apart) > 1 or len({each.history for each in primary.values()}) > 1:
        return f"{APART}: {' does not see '.join(primary)}"
    return ""
