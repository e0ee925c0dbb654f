"""A user's transactions on single rows, and the anomalies in what their clients saw."""

from dataclasses import dataclass
from decimal import Decimal

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.question.registers import Registers
from replication_lab.workloads._colliding import RegisterRecorder
from replication_lab.workloads.histories import Checked, checked
from replication_lab.world.docker.lab import Lab


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
        return checked(lab, nodes, self.seconds, recorders, seed)

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
