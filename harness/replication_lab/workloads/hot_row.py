"""One row that all clients change, to measure how often a second it can change, and whether every change is kept."""

from dataclasses import dataclass
from random import Random

from replication_lab.workloads._contention import Collided, collide, sums
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Cursor

TABLE = "lab.hot"


@dataclass(frozen=True)
class HotRow:
    """`clients` spread over `nodes` (the source if none is named) that add one to the same row for `seconds`."""

    clients: int = 6
    seconds: float = 2
    nodes: tuple[str, ...] = ()

    def prepare(self, lab: Lab) -> None:
        lab.node(lab.topology.source.name).server().execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
            f"REPLACE INTO {TABLE} VALUES (1, 0)",
        )

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = self.nodes or (lab.topology.source.name,)
        before = sums(lab, "n", TABLE)[0]
        clients = collide(lab, nodes, self.clients, self.seconds, _add_one, seed=seed)
        after = sums(lab, "n", TABLE)
        return Collided(clients, after[0] - before, after)


def _add_one(cursor: Cursor, _dice: Random) -> None:
    cursor.execute(f"UPDATE {TABLE} SET n = n + 1 WHERE id = 1")
