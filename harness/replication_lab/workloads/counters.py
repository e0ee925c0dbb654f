"""Counters that all clients change, to find lost updates: one hot row, or several that clients read and write back."""

from dataclasses import dataclass
from typing import ClassVar

from replication_lab.workloads._colliding import AddOne, Increment, Transact
from replication_lab.workloads._contention import Collided, collide, sums
from replication_lab.world.docker.lab import Lab


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
        rows = ", ".join(f"({number}, 0)" for number in range(self.counters))
        lab.node(lab.topology.source.name).server().execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
            f"REPLACE INTO {self.table} VALUES {rows}",
        )

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = self.nodes or tuple(node.name for node in lab.topology.nodes)
        before = sums(lab, "n", self.table)[0]
        clients = collide(lab, nodes, self.seconds, [self._transaction()] * self.clients, seed=seed)
        after = sums(lab, "n", self.table)
        return Collided(clients, after[0] - before, after)

    def _transaction(self) -> Transact:
        return AddOne(self.table, self.counters)


@dataclass(frozen=True)
class HotRow(Counters):
    """The same with one row, to which the server adds: how often a second it can change, and whether all is kept."""

    table: ClassVar[str] = "lab.hot"
    clients: int = 6
    counters: int = 1

    def _transaction(self) -> Transact:
        return Increment(self.table)
