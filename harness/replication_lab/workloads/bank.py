"""A bank: transfers between accounts on all nodes at once; every reader must find the same sum of all accounts."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from replication_lab.workloads._contention import Collided, collide, sums
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Cursor, Server

TABLE = "lab.accounts"
OPENING, MOST = 1_000, 20


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
        closed = threading.Event()
        with ThreadPoolExecutor(len(nodes)) as pool:
            readers = [pool.submit(self._read_until, lab.node(node).server(), closed) for node in nodes]
            try:
                clients = collide(lab, nodes, self.seconds, [self._transfer] * self.clients, seed=seed)
            finally:
                closed.set()
            seen = [total for reader in readers for total in reader.result()]
        after = sums(lab, "balance", TABLE)
        wrong = {"reads": len(seen), "wrong_sums": sum(total != self.total for total in seen)}
        return Collided(clients, after[0] - self.total, after, per_commit=0, more=wrong)

    def _read_until(self, server: Server, closed: threading.Event) -> list[int]:
        found: list[int] = []
        with server.session() as connection, connection.cursor() as cursor:
            # At least one read, however short the load.
            while not found or not closed.is_set():
                cursor.execute(f"SELECT SUM(balance) FROM {TABLE}")
                [total] = cursor.fetchone() or []
                found.append(int(total))
                closed.wait(0.01)
        return found

    def _transfer(self, cursor: Cursor, dice: Random) -> None:
        giver, taker = dice.sample(range(self.accounts), 2)
        amount = dice.randint(1, MOST)
        cursor.execute(f"UPDATE {TABLE} SET balance = balance - {amount} WHERE id = {giver}")
        cursor.execute(f"UPDATE {TABLE} SET balance = balance + {amount} WHERE id = {taker}")
