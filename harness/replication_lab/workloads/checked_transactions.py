"""A user's transactions on single rows, and the anomalies in what their clients saw."""

from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.isolation.transactions import Key, Op, Version
from replication_lab.model.question.registers import Registers, RowStep
from replication_lab.workloads.histories import Checked, checked
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Cursor

# A column's number times this is added to the key of a row: more than any key.
KEYS = 2**32


@dataclass
class RegisterRecorder:
    """Does the transactions of one client, and keeps what each read and wrote; `version` is the next value it writes.

    Each client writes every `step`-th number from the first one that no row had before the load.
    """

    registers: Registers
    first: int
    version: int
    step: int
    did: list[tuple[float, list[Op]]] = field(default_factory=list)

    def __call__(self, cursor: Cursor, dice: Random) -> None:
        did = list[Op]()
        self.did.append((clock.timer(), did))
        transaction = dice.choice(self.registers.transactions)
        values = {name: dice.randint(drawn.low, drawn.high) for name, drawn in transaction.drawn.items()}
        for step in transaction.steps:
            self._do(cursor, step, values, did)

    def _do(self, cursor: Cursor, step: RowStep, values: dict[str, int], did: list[Op]) -> None:
        values |= {name: self._unused() for name in step.values}
        sql = "".join(str(values[piece]) if number % 2 else piece for number, piece in enumerate(step.pieces)).strip()
        key = int(values.get(step.key, step.key))
        for column, name in zip(step.writes, step.values, strict=True):
            # Recorded before it is sent: it may be seen though its transaction is rolled back.
            did.append(Op("write", self._row(step.table, column, key), values[name], sql=sql))
        cursor.execute(sql)
        if not cursor.rowcount:
            raise LabError(f"`{sql}` found no row", "a row of each key that transactions use, all through the load")
        names = [str(column[0]).lower() for column in cursor.description or ()]
        for name, value in zip(names, (cursor.fetchone() or ()) if names else (), strict=True):
            if (step.table, name) in self.registers.columns:
                did.append(Op("read", self._row(step.table, name, key), self._version(value), sql=sql))

    def _row(self, table: str, column: str, key: int) -> Key:
        return self.registers.columns.index((table, column)) * KEYS + key

    def _version(self, value: int | Decimal | None) -> Version:
        return None if value is None or value < self.first else int(value)

    def _unused(self) -> int:
        found, self.version = self.version, self.version + self.step
        if found > self.registers.values.high:
            raise LabError(
                f"all numbers up to {self.registers.values.high} were written once", "more of them", "a wider range"
            )
        return found


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
        """Raise LabError unless there is exactly one row of each key that the transactions use."""
        server = lab.node(replication.of(lab).written_at()).server()
        for table, column, keys in self.registers.rows:
            asked, high = f"{table} with {column} from {keys.low} to {keys.high}", keys.high - keys.low + 1
            count = f"SELECT COUNT(*) AS many, COUNT(DISTINCT {column}) AS different FROM {table}"
            (found,) = server.rows(f"{count} WHERE {column} BETWEEN {keys.low} AND {keys.high}")
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
        return checked(lab, nodes, self.seconds, recorders, seed)

    def _first(self, lab: Lab) -> int:
        """Return the first number that is greater than all in the columns: from it on each is written once."""
        server, found = lab.node(replication.of(lab).written_at()).server(), self.registers.values.low
        for table, column in self.registers.columns:
            most = server.value(f"SELECT MAX({column}) FROM {table}")
            if not isinstance(most, int | Decimal | None):
                raise LabError(f"--check: {table}.{column} holds {most!r}", "a column of whole numbers")
            found = max(found, int(most or 0) + 1)
        return found
