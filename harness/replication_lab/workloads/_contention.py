"""Clients whose transactions collide on several nodes, and a check that every copy holds what was acknowledged."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from random import Random

import numpy as np

from replication_lab import replication
from replication_lab.model.question.moments import Moments
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.connection import Conflict, transaction
from replication_lab.world.mysql.server import Connection, Cursor

# What one client does in one transaction, given a cursor and a random generator of its own.
Transact = Callable[[Cursor, Random], None]


@dataclass
class CollidingClient:
    """The result of one client: its begin and end (s), the latency of each commit (ms), and the conflicts it lost.

    `begun` are the times (s) at which its transactions began, `answered` and `lost` those of the commits and of the
    conflicts.
    """

    began: float
    ended: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    conflicts: Counter = field(default_factory=Counter)
    begun: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)


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
        conflicts = sum((client.conflicts for client in self.clients), Counter())
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
    """Run a client for each of `transacts`, spread over `nodes`, for this many seconds, one transaction after another.

    A transaction that lost against another one (error 1213, 1205 or 1020) is counted and not repeated: the next has
    random numbers of its own. Any other error is a LabError, because the load is then invalid.
    """
    clients = range(len(transacts))
    dice = [Random(f"{seed}:{number}") for number in clients]
    together = threading.Barrier(len(clients))
    with ExitStack() as sessions, ThreadPoolExecutor(len(clients)) as pool:
        connections = [sessions.enter_context(_session(lab, nodes, number)) for number in clients]
        running = [
            pool.submit(_client, *each, seconds, together) for each in zip(connections, dice, transacts, strict=True)
        ]
        return [each.result() for each in running]


def _session(lab: Lab, nodes: Sequence[str], number: int) -> AbstractContextManager[Connection]:
    return lab.node(nodes[number % len(nodes)]).server().session()


def _client(
    connection: Connection, dice: Random, transact: Transact, seconds: float, together: threading.Barrier
) -> CollidingClient:
    # A client that starts before the others have connected cannot conflict with them.
    together.wait()
    client = CollidingClient(began=clock.timer())
    while (began := clock.timer()) < client.began + seconds:
        client.begun.append(began)
        try:
            with transaction(connection) as cursor:
                transact(cursor, dice)
        except Conflict as conflict:
            client.conflicts[conflict.kind] += 1
            client.lost.append(clock.timer())
        else:
            client.answered.append(clock.timer())
            client.latencies_ms.append((client.answered[-1] - began) * 1000)
    client.ended = clock.timer()
    return client


def sums(lab: Lab, column: str, table: str) -> list[int]:
    """Return the sum of a column on every node, the source's first, once all have applied what was committed."""
    replication.of(lab).wait_until_caught_up()
    nodes = (lab.topology.source, *lab.topology.replicas)
    return [int(lab.node(node.name).server().value(f"SELECT SUM({column}) FROM {table}")) for node in nodes]
