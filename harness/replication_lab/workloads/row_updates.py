"""Changes of single rows at random places of a table of wide rows, paced or as fast as the source takes them."""

import re
from dataclasses import dataclass
from pathlib import Path
from random import Random

from replication_lab.model.core.errors import LabError
from replication_lab.workloads import sysbench
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import USER, Lab
from replication_lab.world.mysql.server import Connection, Server

SCRIPT = Path(__file__).with_suffix(".lua")
# Two rows fill a page of 16 KiB, and none spills over into pages of its own.
ROW_BYTES = 7000
ROWS_A_STATEMENT = 200
CLIENTS = 4
COUNTED = re.compile(r"total number of events:\s+(\d+)")


@dataclass(frozen=True)
class RowChanges:
    """Tables of `rows` wide rows, the same on every node, one in each of `databases`; a change writes `width` bytes."""

    rows: int = 4000
    width: int = 1000
    databases: tuple[str, ...] = ("lab",)

    @property
    def tables(self) -> list[str]:
        return [f"{database}.wide" for database in self.databases]

    def fill(self, lab: Lab) -> None:
        """Make and fill the tables on every node by itself, so that the rows need not cross the links."""
        lab.service("load").put(f"/tmp/{SCRIPT.name}", SCRIPT.read_bytes())
        at_once.of_each(lambda node: self._fill(lab.node(node.name).server()), lab.topology.nodes)

    def _fill(self, server: Server) -> None:
        wide = f"REPEAT('a', {self.width}), REPEAT('b', {ROW_BYTES - self.width})"
        rows = self.rows // len(self.databases)
        # In one session: a new connection would write the rows to the binary log.
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            for database, table in zip(self.databases, self.tables, strict=True):
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
                cursor.execute(
                    f"CREATE TABLE {table} (id INT PRIMARY KEY, text VARCHAR({self.width}) NOT NULL, "
                    f"rest VARCHAR({ROW_BYTES}) NOT NULL) ENGINE=InnoDB CHARACTER SET latin1"
                )
                # All that a change needs: applications have rights in their own database only.
                cursor.execute(f"GRANT SELECT, UPDATE ON {table} TO '{USER}'@'%'")
                for first in range(1, rows + 1, ROWS_A_STATEMENT):
                    some = range(first, min(first + ROWS_A_STATEMENT, rows + 1))
                    cursor.execute(f"INSERT INTO {table} VALUES {', '.join(f'({number}, {wide})' for number in some)}")

    def change(self, lab: Lab, seed: int, rows: int) -> int:
        """Change this many rows on the source as fast as it takes them; return their number, LabError if one failed."""
        printed = lab.service("load").run(
            *sysbench.command(f"/tmp/{SCRIPT.name}", (lab.topology.source.name,), CLIENTS),
            f"--events={rows}",
            "--time=0",
            f"--rand-seed={seed}",
            f"--tables={','.join(self.tables)}",
            f"--rows={self.rows // len(self.databases)}",
            f"--width={self.width}",
            "run",
        )
        counted = COUNTED.search(printed)
        if not counted:
            raise LabError(
                f"sysbench reported no number of events:\n{printed[-400:]}", "a number of events", "./lab status"
            )
        return int(counted[1])


class Pace:
    """One client that changes `rate` rows a second; after a delay it speeds up, so that the rate is kept.

    It gets a connection of the source: connecting during the load would delay its begin.
    """

    def __init__(self, changes: RowChanges, connection: Connection, rate: float, seed: int):
        self._changes, self._connection, self.rate, self._dice = changes, connection, rate, Random(seed)
        self.rows, self._began = 0, clock.timer()
        self._ended = self._began

    def continue_for(self, seconds: float) -> None:
        """Change rows for this many seconds from now on."""
        until = clock.timer() + seconds
        while clock.timer() < until and (due := self._began + self.rows / self.rate) <= until:
            clock.pause(max(due - clock.timer(), 0))
            self._change()
        clock.pause(max(until - clock.timer(), 0))
        self._ended = clock.timer()

    def _change(self) -> None:
        changes, dice = self._changes, self._dice
        table, number = dice.choice(changes.tables), dice.randint(1, changes.rows // len(changes.databases))
        text = f"REPEAT('{dice.getrandbits(40):010x}', {changes.width // 10})"
        with self._connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET text = {text} WHERE id = {number}")
        self.rows += 1

    @property
    def rows_per_second(self) -> float:
        """The rate until `continue_for` last returned: reading the disks takes half a second after that."""
        return self.rows / max(self._ended - self._began, 1e-6)
