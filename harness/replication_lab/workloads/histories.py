"""Transactions that read and write a few rows together, and the anomalies in what their clients saw.

Half of the rows hold a value that a client reads and then overwrites, the other half a list that the server appends to.
Each value and each element is written once, so a read shows whose write it saw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from random import Random
from typing import ClassVar

from replication_lab import replication
from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.anomalies import Anomaly, anomalies, counted, example
from replication_lab.model.isolation.transactions import Key, Op, SeenTransaction
from replication_lab.workloads._contention import Collided, CollidingClient, collide
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Cursor

TABLE = "lab.histories"
MOST_OPS, READS = 4, 0.5
# What a load that adds up its writes knows of the copies.
OF_COPIES = ("lost_updates", "unacknowledged_updates", "copies", "diverged")


@dataclass(frozen=True)
class Checked(Collided):
    """The results of the clients, and the anomalies in their transactions; `findings` are the shortest of each kind."""

    history: Sequence[SeenTransaction] = ()
    found: Sequence[Anomaly] = ()

    @property
    def commits(self) -> int:
        """Return the number of transactions that wrote: only those are writesets, and wait for other nodes."""
        return len(self._wrote)

    @property
    def fastest_commit_ms(self) -> float | None:
        return min(((each.ended - each.began) * 1000 for each in self._wrote), default=None)

    @cached_property
    def _wrote(self) -> list[SeenTransaction]:
        committed = (each for each in self.history if each.outcome is Outcome.ACKNOWLEDGED)
        return [each for each in committed if not all(op.reads for op in each.ops)]

    @property
    def figures(self) -> dict[str, float]:
        usual = super().figures
        own = {
            "transactions": len(self.latencies_ms),
            "reads": sum(op.reads for each in self.history for op in each.ops),
        }
        return {name: value for name, value in usual.items() if name not in OF_COPIES} | own | counted(self.found)

    @property
    def findings(self) -> dict[str, str]:
        shortest = {one.kind: one for one in reversed(self.found)}
        return {kind: example(one, self.history) for kind, one in shortest.items()}


@dataclass(frozen=True)
class Histories:
    """`clients` on `nodes` (all, if none is named) that run transactions of one to four operations, for `seconds`.

    On `readers` another client each reads single rows, in transactions of its own.
    """

    clients: int = 6
    seconds: float = 2
    rows: int = 6
    nodes: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    # Unique for as long as a lab lives, so that a row of an earlier round is no version of this one.
    _numbers: ClassVar[count] = count(1)

    def prepare(self, lab: Lab) -> None:
        lab.node(lab.topology.source.name).server().execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, n BIGINT, list TEXT) ENGINE=InnoDB"
        )

    def run(self, lab: Lab, seed: int) -> Checked:
        """Empty the rows, run the transactions, wait for all copies, and check what was read."""
        rows = ", ".join(f"({key}, NULL, '')" for key in range(self.rows))
        lab.node(lab.topology.source.name).server().execute(f"REPLACE INTO {TABLE} VALUES {rows}")
        replication.of(lab).wait_until_caught_up()
        writers = self.nodes or tuple(node.name for node in lab.topology.nodes)
        nodes = [*(writers[number % len(writers)] for number in range(self.clients)), *self.readers]
        recorders = [_Recorder(self.rows, reads_only=number >= self.clients) for number in range(len(nodes))]
        clients = collide(lab, nodes, self.seconds, recorders, seed=seed)
        load = min(client.began for client in clients)
        history = [
            one
            for number, (node, recorder, client) in enumerate(zip(nodes, recorders, clients, strict=True), 1)
            for one in recorder.transactions(number, node, client, load)
        ]
        replication.of(lab).wait_until_caught_up()
        return Checked(clients, 0, [], history=history, found=anomalies(history, self._final(lab)))

    def _final(self, lab: Lab) -> Mapping[Key, tuple[int, ...]]:
        rows = lab.node(lab.topology.source.name).server().rows(f"SELECT id, list FROM {TABLE}")
        return {int(row["id"]): _elements(row["list"]) for row in rows if _is_list(int(row["id"]))}


def _is_list(key: Key) -> bool:
    return key % 2 == 1


def _elements(text: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, text.split(","))))


@dataclass
class _Recorder:
    """Does the transactions of one client, and keeps what each read and wrote."""

    rows: int
    reads_only: bool
    # When each began to read and write: after its BEGIN was answered.
    ops: list[tuple[float, list[Op]]] = field(default_factory=list)

    def __call__(self, cursor: Cursor, dice: Random) -> None:
        did = list[Op]()
        self.ops.append((clock.timer(), did))
        for _ in range(1 if self.reads_only else dice.randint(1, MOST_OPS)):
            key = dice.randrange(self.rows)
            reads = self.reads_only or dice.random() < READS
            # A value's new version is known to follow the one that was read before.
            if reads or not _is_list(key):
                did.append(self._read(cursor, key))
            if not reads:
                self._write(cursor, key, did)

    def _read(self, cursor: Cursor, key: Key) -> Op:
        cursor.execute(f"SELECT n, list FROM {TABLE} WHERE id = {key}")
        [value, text] = cursor.fetchone() or (None, "")
        if not _is_list(key):
            return Op("read", key, value)
        elements = _elements(text)
        return Op("read", key, elements[-1] if elements else None, elements)

    def _write(self, cursor: Cursor, key: Key, did: list[Op]) -> None:
        # Recorded before it is sent: it may be seen though its transaction is rolled back.
        number = next(Histories._numbers)
        did.append(Op("append" if _is_list(key) else "write", key, number))
        new = f"list = CONCAT(list, ',', {number})" if _is_list(key) else f"n = {number}"
        cursor.execute(f"UPDATE {TABLE} SET {new} WHERE id = {key}")

    def transactions(self, number: int, node: str, client: CollidingClient, load: float) -> list[SeenTransaction]:
        """Return the client's transactions; their times count from the moment `load`."""
        committed = ((at, Outcome.ACKNOWLEDGED) for at in client.answered)
        ends = sorted([*committed, *((at, Outcome.FAILED) for at in client.lost)])
        return [
            SeenTransaction(
                client=number,
                node=node,
                began=began - load,
                ended=ended - load,
                outcome=outcome,
                ops=self._between(began, ended),
            )
            for began, (ended, outcome) in zip(client.begun, ends, strict=True)
        ]

    def _between(self, began: float, ended: float) -> tuple[Op, ...]:
        """Return the operations of a transaction; none if its BEGIN failed."""
        return next((tuple(did) for at, did in self.ops if began <= at <= ended), ())
