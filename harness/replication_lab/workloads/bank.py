"""A bank: transfers between accounts on all nodes at once; every reader must find the same sum of all accounts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from replication_lab.workloads._colliding import Readers, Transfer
from replication_lab.workloads._contention import Collided, collide, sums
from replication_lab.world.docker.lab import Lab

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
