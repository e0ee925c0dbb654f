"""Clients whose transactions collide on several nodes, and a check that every copy holds what was acknowledged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from replication_lab import replication
from replication_lab.model.question.load import Moments
from replication_lab.workloads._colliding import Colliding, CollidingClient, Transact
from replication_lab.world.docker.lab import Lab


@dataclass(frozen=True)
class Collided:
    """The results of all clients, and what the copies held afterwards.

    `grown` is by how much the sum over the table grew on the first node, where each commit adds `per_commit`; `sums`
    are the sums on all nodes.
    """

    clients: list[CollidingClient]
    grown: int
    sums: list[int]
    per_commit: int = 1
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def commits(self) -> int:
        return len(self.latencies_ms)

    @property
    def latencies_ms(self) -> list[float]:
        return [each for client in self.clients for each in client.latencies_ms]

    @property
    def samples(self) -> dict[str, list[float]]:
        return {"latency_ms": self.latencies_ms}

    @property
    def moments(self) -> Moments:
        return Moments(
            min(client.began for client in self.clients),
            max(client.ended for client in self.clients),
            [each for client in self.clients for each in zip(client.answered, client.latencies_ms, strict=False)],
            [at for client in self.clients for at in client.lost],
        )

    @property
    def figures(self) -> dict[str, float]:
        conflicts = sum((Counter(client.conflicts) for client in self.clients), Counter())
        seconds = max(client.ended for client in self.clients) - min(client.began for client in self.clients)
        acknowledged = self.commits * self.per_commit
        return {
            "commits": self.commits,
            "throughput": round(self.commits / max(seconds, 1e-6), 3),
            **self._latencies(),
            "attempts": self.commits + conflicts.total(),
            "deadlocks": conflicts["deadlock"],
            "timeouts": conflicts["timeout"],
            "changed": conflicts["changed"],
            "lost_updates": max(acknowledged - self.grown, 0),
            "unacknowledged_updates": max(self.grown - acknowledged, 0),
            "copies": len(self.sums),
            "diverged": sum(each != self.sums[0] for each in self.sums),
            **self.more,
        }

    def _latencies(self) -> dict[str, float]:
        if not self.latencies_ms:
            return {}
        low, middle = np.quantile(self.latencies_ms, [0, 0.5])
        return {"latency_min_ms": round(float(low), 3), "latency_p50_ms": round(float(middle), 3)}


def collide(
    lab: Lab, nodes: Sequence[str], seconds: float, transacts: Sequence[Transact], *, seed: int
) -> list[CollidingClient]:
    """Run a client for each of `transacts`, spread over `nodes`, which repeats it for this many seconds."""
    place, clients = lab.clients_place, range(len(transacts))
    servers = [lab.for_clients(nodes[number % len(nodes)]) for number in clients]
    return [one.earlier(place.ahead) for one in place.make(Colliding, servers, transacts, seed).run(seconds)]


def sums(lab: Lab, column: str, table: str) -> list[int]:
    """Return the sum of a column on every node, the source's first, once all have applied what was committed."""
    replication.of(lab).wait_until_caught_up()
    nodes = (lab.topology.source, *lab.topology.replicas)
    return [int(lab.node(node.name).server().value(f"SELECT SUM({column}) FROM {table}")) for node in nodes]
