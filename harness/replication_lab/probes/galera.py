"""Proofs about a Galera cluster: its nodes' own view, a write read elsewhere, a commit that waited."""

from collections.abc import Iterable
from dataclasses import dataclass

from replication_lab.model.core.proof import Proof
from replication_lab.probes.commit_latency import none_too_fast
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.galera import GaleraNode, GaleraStatus
from replication_lab.world.mysql.server import Server

SYNCED_SECONDS = 60


def wait_until_synced(servers: Iterable[Server], size: int) -> None:
    """Wait until each of these nodes reports Synced in a Primary cluster of `size` nodes."""
    for server in servers:
        wait_until(
            lambda server=server: _is_synced(GaleraNode(server).status(), size),  # type: ignore[misc]
            f"{server.name} to be Synced in a cluster of {size}",
            SYNCED_SECONDS,
            hint=f"./lab sql {server.name} -e \"SHOW STATUS LIKE 'wsrep%'\"",
        )


def _is_synced(found: GaleraStatus, size: int) -> bool:
    return found.synced and found.size == size


def counts(before: dict[str, GaleraStatus], after: dict[str, GaleraStatus]) -> dict[str, float]:
    """Return certification failures and aborts of all nodes, the longest paused time, and the pauses each asked for."""
    grown = {name: (before[name], after[name]) for name in before}
    return {
        "cert_failures": sum(now.cert_failures - then.cert_failures for then, now in grown.values()),
        "bf_aborts": sum(now.bf_aborts - then.bf_aborts for then, now in grown.values()),
        "flow_control_paused_ms": round(max(now.paused_ms - then.paused_ms for then, now in grown.values()), 3),
        **{f"flow_control_stops.{name}": now.stops - then.stops for name, (then, now) in grown.items()},
    }


@dataclass
class GaleraWatch:
    """A cluster before a load; `proofs` says whether it is complete after it. A witness observes that no node leaves.

    `round_trip_ms` is what the toxics add between any two nodes: no commit may be answered sooner. Where `throttled`,
    flow control must have paused the nodes.
    """

    servers: list[Server]
    round_trip_ms: float = 0
    throttled: bool = False

    def __post_init__(self) -> None:
        self.before = self._views()

    def _views(self) -> dict[str, GaleraStatus]:
        return {server.name: GaleraNode(server).status() for server in self.servers}

    def figures(self) -> dict[str, float]:
        """Return certification failures, brute force aborts and flow control's pauses since the load began."""
        return counts(self.before, self._views())

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        """Return the proofs over a load of `commits` transactions, the fastest of which took `fastest_ms`."""
        # The first node answers a commit of another node before it has applied it.
        GaleraNode(self.servers[0]).wait_for_writesets()
        after = self._views()
        return [
            *(_whole(name, view, len(self.servers)) for name, view in after.items()),
            self._grown(after, commits),
            *none_too_fast(fastest_ms, self.round_trip_ms),
            *([_paused(counts(self.before, after)["flow_control_paused_ms"])] if self.throttled else []),
        ]

    def _grown(self, after: dict[str, GaleraStatus], commits: int) -> Proof:
        first = self.servers[0].name
        grown = after[first].last_committed - self.before[first].last_committed
        return Proof(
            what="every commit was a writeset of the group",
            expected=f"at least {commits} writesets",
            found=f"{grown} writesets",
            ok=grown >= commits,
        )


def _paused(ms: float) -> Proof:
    return Proof(what="flow control paused the cluster", expected="more than 0 ms", found=f"{ms:.0f} ms", ok=ms > 0)


def _whole(name: str, view: GaleraStatus, size: int) -> Proof:
    primary = "Primary" if view.primary else "non-Primary"
    return Proof(
        what=f"{name} stayed in the cluster",
        expected=f"Synced, Primary, {size} nodes",
        found=f"{view.state}, {primary}, {view.size} nodes",
        ok=_is_synced(view, size),
    )
