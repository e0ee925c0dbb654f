"""Counters that clients read, increment and write back on all nodes at once, to find lost updates."""

from dataclasses import dataclass
from random import Random

from replication_lab.workloads._contention import Collided, collide, sums
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Cursor

TABLE = "lab.counters"


@dataclass(frozen=True)
class Counters:
    """`clients` spread over `nodes` (all, if none is named) that pick one of `counters` at random, for `seconds`.

    The client computes the new value from the one that it read, so that a server which lets two of them read the same
    value and write loses an update.
    """

    clients: int = 12
    seconds: float = 2
    counters: int = 8
    nodes: tuple[str, ...] = ()

    def prepare(self, lab: Lab) -> None:
        rows = ", ".join(f"({number}, 0)" for number in range(self.counters))
        lab.node(lab.topology.source.name).server().execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
            f"REPLACE INTO {TABLE} VALUES {rows}",
        )

    def run(self, lab: Lab, seed: int) -> Collided:
        nodes = self.nodes or tuple(node.name for node in lab.topology.nodes)
        before = sums(lab, "n", TABLE)[0]
        clients = collide(lab, nodes, self.clients, self.seconds, self._read_add_write, seed=seed)
        after = sums(lab, "n", TABLE)
        return Collided(clients, after[0] - before, after)

    def _read_add_write(self, cursor: Cursor, dice: Random) -> None:
        number = dice.randrange(self.counters)
        cursor.execute(f"SELECT n FROM {TABLE} WHERE id = {number} FOR UPDATE")
        [found] = cursor.fetchone() or []
        cursor.execute(f"UPDATE {TABLE} SET n = {found + 1} WHERE id = {number}")
