"""Rows that all clients change: counters, to find lost updates, and accounts, whose sum every reader must find."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from replication_lab import replication
from replication_lab.model.question.load import Moments
from replication_lab.workloads._colliding import (
    CollidingClient,
    Readers,
    Transact,
    add_one,
    increment,
    run_colliding,
    transfer,
)
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
    return [one.earlier(place.ahead) for one in place.call(run_colliding, servers, transacts, seed, seconds)]


def sums(lab: Lab, column: str, table: str) -> list[int]:
    """Return the sum of a column on every node, the source's first, once all have applied what was committed."""
    replication.of(lab).wait_until_caught_up()
    nodes = (lab.topology.source, *lab.topology.replicas)
    return [int(lab.node(node.name).server().value(f"SELECT SUM({column}) FROM {table}")) for node in nodes]


def fill(lab: Lab, table: str, column: str, rows: int, value: int) -> None:
    """Make a table if there is none, and set its rows, numbered from 0, to the same value."""
    entries = ", ".join(f"({number}, {value})" for number in range(rows))
    lab.node(lab.topology.source.name).server().execute(
        f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, {column} BIGINT NOT NULL) ENGINE=InnoDB",
        f"REPLACE INTO {table} VALUES {entries}",
    )


@dataclass(frozen=True)
class Counters:
    """`clients` spread over `nodes` (all, if none is named) that pick one of `counters` at random, for `seconds`.

    The client computes the new value from the one that it read, so that a server which lets two of them read the same
    value and write loses an update.
    """

    table: ClassVar[str] = "lab.counters"
    clients: int = 12
    seconds: float = 2
    counters: int = 8
    nodes: tuple[str, ...] = ()

    def prepare(self, lab: Lab) -> None:
        fill(lab, self.table, "n", self.counters, 0)

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = self.nodes or tuple(node.name for node in lab.topology.nodes)
        before = sums(lab, "n", self.table)[0]
        clients = collide(lab, nodes, self.seconds, [self._transaction()] * self.clients, seed=seed)
        after = sums(lab, "n", self.table)
        return Collided(clients, after[0] - before, after)

    def _transaction(self) -> Transact:
        return partial(add_one, self.table, self.counters)


@dataclass(frozen=True)
class HotRow(Counters):
    """The same with one row, to which the server adds: how often a second it can change, and whether all is kept."""

    table: ClassVar[str] = "lab.hot"
    clients: int = 6
    counters: int = 1

    def _transaction(self) -> Transact:
        return partial(increment, self.table)


TABLE = "lab.accounts"
OPENING, MOST = 1_000, 20
SUM = f"SELECT SUM(balance) FROM {TABLE}"


@dataclass(frozen=True)
class Bank:
    """`clients` on all nodes that transfer between `accounts` for `seconds`; a reader on each node adds them up.

    Figures besides the usual: `reads` of the sum, and `wrong_sums`, the reads that differ from the opening sum.
    """

    clients: int = 9
    seconds: float = 2
    accounts: int = 20

    @property
    def total(self) -> int:
        return self.accounts * OPENING

    def prepare(self, lab: Lab) -> None:
        fill(lab, TABLE, "balance", self.accounts, OPENING)

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = tuple(node.name for node in lab.topology.nodes)
        transact = partial(transfer, TABLE, self.accounts, MOST)
        readers = lab.clients_place.make(Readers, [lab.for_clients(node) for node in nodes], SUM)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(readers.read)
            try:
                clients = collide(lab, nodes, self.seconds, [transact] * self.clients, seed=seed)
            finally:
                readers.stop()
            seen = reading.result()
        after = sums(lab, "balance", TABLE)
        wrong = {"reads": len(seen), "wrong_sums": sum(total != self.total for total in seen)}
        return Collided(clients, after[0] - self.total, after, per_commit=0, more=wrong)
