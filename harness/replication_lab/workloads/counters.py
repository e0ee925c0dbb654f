"""Rows that all clients change: counters, to find lost updates, and accounts, whose sum every reader must find."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from replication_lab.workloads._colliding import AddOne, Increment, Readers, Transact, Transfer
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
        rows = ", ".join(f"({number}, {OPENING})" for number in range(self.accounts))
        lab.node(lab.topology.source.name).server().execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, balance BIGINT NOT NULL) ENGINE=InnoDB",
            f"REPLACE INTO {TABLE} VALUES {rows}",
        )

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = tuple(node.name for node in lab.topology.nodes)
        transfer = Transfer(TABLE, self.accounts, MOST)
        readers = lab.clients_place.make(Readers, [lab.for_clients(node) for node in nodes], SUM)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(readers.read)
            try:
                clients = collide(lab, nodes, self.seconds, [transfer] * self.clients, seed=seed)
            finally:
                readers.stop()
            seen = reading.result()
        after = sums(lab, "balance", TABLE)
        wrong = {"reads": len(seen), "wrong_sums": sum(total != self.total for total in seen)}
        return Collided(clients, after[0] - self.total, after, per_commit=0, more=wrong)
