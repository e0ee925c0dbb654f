"""An applier that has stopped with error 1032: a row of the replica is deleted, and the source updates it."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults._servers import REPLICAS, OnServers
from replication_lab.faults.fault import fault
from replication_lab.faults.thread_stop import start_thread
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import APPLIER, Replica
from replication_lab.world.mysql.server import Server

# Can't find record.
NO_SUCH_ROW = 1032
TABLE = "lab.applier_error"
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, changes INT NOT NULL) ENGINE=InnoDB"
# The row has to be replicated as a row: an UPDATE that is replicated as a statement changes none, without an error.
AS_ROWS = "SET SESSION binlog_format = ROW"
# What is done on the replica alone must not become a transaction of its own.
UNLOGGED = "SET SESSION sql_log_bin = 0"
ARRIVES_SECONDS = 60


@fault(
    "applier-error",
    acts_on=NODES,
    does="a row of the lab's own is deleted on the replica and updated on the source: the applier stops by error 1032",
    proof="the applier is stopped by error 1032, also between the readings; after recovery: it runs without an error",
    needs=(REPLICAS,),
)
class ApplierError(OnServers):
    """Replicas whose applier stops with an error; recovery restores the row and starts the applier."""

    state = f"the applier is stopped by error {NO_SUCH_ROW}"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        """Write the row, and wait until each of the replicas has it."""
        super().__init__(lab, nodes)
        self._source = self.server(lab.topology.source.name)
        self._source.execute(CREATE, f"INSERT IGNORE INTO {TABLE} VALUES (1, 0)")
        self._changes = self._value(self._source)
        for node in self.nodes:
            clock.wait_until(partial(self._has_row, node), f"{node} to have the row", ARRIVES_SECONDS)

    def _has_row(self, node: str) -> bool:
        listed = self.server(node).rows("SHOW TABLES FROM lab LIKE 'applier_error'")
        return bool(listed) and self._value(self.server(node)) == self._changes

    @staticmethod
    def _value(server: Server) -> int | None:
        found: int | None = server.value(f"SELECT changes FROM {TABLE} WHERE id = 1")
        return found

    def inject(self) -> None:
        self.each(lambda node: self._alone(node, f"DELETE FROM {TABLE} WHERE id = 1"))
        self._source.another().execute(AS_ROWS, f"UPDATE {TABLE} SET changes = changes + 1 WHERE id = 1")
        super().inject()

    def _alone(self, node: str, statement: str) -> None:
        self.server(node).another().execute(UNLOGGED, statement)

    def begin(self, node: str) -> None:
        clock.wait_until(
            lambda: not self.contrary(node, self.server(node)), f"the applier of {node} to stop", ARRIVES_SECONDS
        )

    def contrary(self, node: str, server: Server) -> str:
        found = Replica(server).status()
        if found is None or found.applying:
            return f"the applier ran on {node}" if found else f"{node} had no source"
        return "" if found.error_number == NO_SUCH_ROW else f"the applier of {node} was stopped without error 1032"

    def end(self, node: str) -> None:
        self._alone(node, f"INSERT IGNORE INTO {TABLE} VALUES (1, {self._changes})")
        if self.replica(node).status():
            start_thread(self.lab, node, APPLIER)

    def hindrance(self, node: str) -> str:
        found = self.replica(node).status()
        if found is None or (found.applying and not found.error_number):
            return ""
        return f"the applier is stopped by error {found.error_number}"
