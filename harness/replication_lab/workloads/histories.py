"""Transactions that read and write a few rows together, and the anomalies in what their clients saw.

They are the user's, or the lab's own: then half of the rows hold a value that a client reads and then overwrites, the
other half a list that the server appends to. Each value and each element is written once, so a read shows whose write
it saw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.anomalies import Anomaly, anomalies, counted, example
from replication_lab.model.isolation.transactions import Key, SeenTransaction
from replication_lab.model.question.registers import Registers
from replication_lab.workloads._colliding import (
    CollidingClient,
    HistoryRecorder,
    RegisterRecorder,
    elements,
    is_list,
)
from replication_lab.workloads.counters import Collided, collide
from replication_lab.world.docker.lab import Lab

TABLE = "lab.histories"
# The figure of all kinds together.
ANOMALIES = "anomalies"
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
            ANOMALIES: len(self.found),
        }
        return {name: value for name, value in usual.items() if name not in OF_COPIES} | own | counted(self.found)

    @property
    def findings(self) -> dict[str, str]:
        shortest = {one.kind: one for one in reversed(self.found)}
        found = {kind: example(one, self.history) for kind, one in shortest.items()}
        if shortest:
            counts = ", ".join(f"{name} {many}" for name, many in counted(self.found).items() if many)
            first = min(shortest.values(), key=lambda one: len(one.places))
            found[ANOMALIES] = f"{counts}; the shortest: {found[first.kind]}"
        return found


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
    # Its claims are about counts and commits/s.
    keeps_samples: bool = False

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
        # Each client's versions begin with its number, so that no other one makes them.
        recorders = [
            HistoryRecorder(TABLE, self.rows, number * 1_000_000, reads_only=number >= self.clients)
            for number in range(len(nodes))
        ]
        clients = collide(lab, nodes, self.seconds, recorders, seed=seed)
        replication.of(lab).wait_until_caught_up()
        found = lab.node(lab.topology.source.name).server().rows(f"SELECT id, list FROM {TABLE}")
        final = {int(row["id"]): elements(row["list"]) for row in found if is_list(int(row["id"]))}
        return checked(nodes, clients, final)


@dataclass(frozen=True)
class CheckedTransactions:
    """`clients` that run a user's transactions for `seconds`: on all nodes of a Galera cluster, else on one."""

    registers: Registers
    clients: int = 6
    seconds: float = 3
    # Its claims are about counts and commits/s.
    keeps_samples: bool = False

    def prepare(self, lab: Lab) -> None:
        """Make nothing: the tables are the user's."""

    def try_out(self, lab: Lab) -> None:
        """Raise LabError unless numbers are kept as they are, and there is one row of each key that is used."""
        server = lab.node(replication.of(lab).written_at()).server()
        if "STRICT_" not in (mode := server.settings("sql_mode")["sql_mode"]):
            # A number that is too great for its column would be cut, and look like another client's.
            raise LabError(
                f"--check: sql_mode is {mode!r}, in which a server changes numbers that are too great for their column",
                "a strict mode",
                "--cnf FILE with sql_mode=STRICT_TRANS_TABLES in [mysqld]",
            )
        for table, column, keys in self.registers.rows:
            asked, high = f"{table} with {column} from {keys.low} to {keys.high}", keys.high - keys.low + 1
            count = f"SELECT COUNT(*) AS many, COUNT(DISTINCT `{column}`) AS different FROM {_quoted(table)}"
            (found,) = server.rows(f"{count} WHERE `{column}` BETWEEN {keys.low} AND {keys.high}")
            if (found["many"], found["different"]) != (high, high):
                raise LabError(
                    f"--check: {found['many']} rows of {asked}, {found['different']} different",
                    f"{high} rows, one of each key",
                    "--init FILE.sql with these rows, or a smaller range of keys",
                )

    def run(self, lab: Lab, seed: int) -> Checked:
        """Run the transactions, wait for all copies, and check what was read."""
        replication.of(lab).wait_until_caught_up()
        writer, first = replication.of(lab).written_at(), self._first(lab)
        every = [node.name for node in lab.topology.nodes] if lab.topology.replication == "galera" else [writer]
        nodes = [every[number % len(every)] for number in range(self.clients)]
        recorders = [
            RegisterRecorder(self.registers, first, first + number, self.clients) for number in range(self.clients)
        ]
        clients = collide(lab, nodes, self.seconds, recorders, seed=seed)
        replication.of(lab).wait_until_caught_up()
        return checked(nodes, clients, {})

    def _first(self, lab: Lab) -> int:
        """Return the first number that is greater than all in the columns: from it on each is written once."""
        server, found = lab.node(replication.of(lab).written_at()).server(), self.registers.values.low
        for table, column in self.registers.columns:
            most = server.value(f"SELECT MAX(`{column}`) FROM {_quoted(table)}")
            if not isinstance(most, int | Decimal | None):
                raise LabError(f"--check: {table}.{column} holds {most!r}", "a column of whole numbers")
            found = max(found, int(most or 0) + 1)
        return found


def _quoted(table: str) -> str:
    return f"`{table.replace('.', '`.`')}`"


def checked(nodes: Sequence[str], clients: Sequence[CollidingClient], final: Mapping[Key, tuple[int, ...]]) -> Checked:
    """Check what clients on these nodes have kept; `final` are the lists at the end."""
    load = min(client.began for client in clients)
    history = [
        one
        for number, (node, client) in enumerate(zip(nodes, clients, strict=True), 1)
        for one in _seen(number, node, client, load)
    ]
    return Checked(list(clients), 0, [], history=history, found=anomalies(history, final))


def _seen(number: int, node: str, client: CollidingClient, load: float) -> list[SeenTransaction]:
    """Return the transactions of a client; their times count from the moment `load`."""
    committed = ((at, Outcome.ACKNOWLEDGED) for at in client.answered)
    ends = sorted([*committed, *((at, Outcome.FAILED) for at in client.lost)])
    return [
        SeenTransaction(
            client=number,
            node=node,
            began=began - load,
            ended=ended - load,
            outcome=outcome,
            # None if its BEGIN failed.
            ops=next((tuple(did) for at, did in client.did if began <= at <= ended), ()),
        )
        for began, (ended, outcome) in zip(client.begun, ends, strict=True)
    ]
