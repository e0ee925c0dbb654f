"""A lock as a backup takes it, held on a node by a session of its own: no statement that writes gets through."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from replication_lab.faults._servers import OnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import Setting
from replication_lab.model.lab import mysql_errors
from replication_lab.world import requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

READ_LOCK, BACKUP = "read-lock", "backup"
# A backup waits for statements that run, and commits that wait.
TAKE_SECONDS = 60
# In the session that tries: the least that a server waits for a lock, and no trace of what it does.
TRIES = ("SET SESSION lock_wait_timeout = 1", "SET SESSION sql_log_bin = 0")
WAITED = 1205


def _check_lock(where: str, lock: Any) -> None:
    if lock not in (READ_LOCK, BACKUP):
        raise LOCK.refusal(where, "backup-lock", lock, f"{READ_LOCK} or {BACKUP}")


LOCK = Setting("lock", READ_LOCK, "the lock {}", _check_lock)


@fault(
    "backup-lock",
    does="a session holds FLUSH TABLES WITH READ LOCK, or with `lock: backup` the server's own lock for backups",
    proof="a statement that the lock excludes waits, and the session lives on between the readings; after recovery: "
    "the statement succeeds",
    settings=(LOCK,),
)
class BackupLock(OnServers):
    """Nodes on which a session holds a lock; recovery ends the session, and so the lock."""

    def __init__(self, lab: Lab, nodes: Sequence[str], lock: str = READ_LOCK):
        super().__init__(lab, nodes)
        self._lock, self.state = lock, "a session holds a backup's lock"
        # The sessions that hold the locks, each with its number.
        self._sessions: dict[str, tuple[Server, int]] = {}

    def begin(self, node: str) -> None:
        server = self.server(node)
        known = server.dialect.locks.get(self._lock)
        if not known:
            raise LabError(f"{node} has no lock for backups", f"`lock: {READ_LOCK}`, or a newer server")
        session = server.answering_within(TAKE_SECONDS)
        self._sessions[node] = session, session.value("SELECT CONNECTION_ID()")
        with requests_made.noted(requests_made.DEFINES, node):
            session.execute(*known.take)

    def contrary(self, node: str, server: Server) -> str:
        _, number = self._sessions[node]
        lives = server.value(f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {number}")
        return "" if lives else f"the session that held the lock had ended on {node}"

    def acts(self, node: str) -> Proof:
        found = self.contrary(node, self.server(node)) or ("" if self._is_locked(node) else "a statement got through")
        return Proof(
            what=f"{node}: {self.state}", expected="a statement that waits", found=found or "it waits", ok=not found
        )

    def _is_locked(self, node: str) -> bool:
        """Return whether a statement that changes nothing waits for the lock."""
        with closing(self.server(node).another()) as server, requests_made.noted(requests_made.DEFINES, node):
            try:
                server.execute(*TRIES, server.dialect.locks[self._lock].excludes)
            except LabError as error:
                if mysql_errors.code_of(error.__cause__) != WAITED:
                    raise
                return True
        return False

    def end(self, node: str) -> None:
        if node in self._sessions:
            session, _ = self._sessions.pop(node)
            session.close()

    def hindrance(self, node: str) -> str:
        return "the lock is still held" if self._is_locked(node) else ""

    def close(self) -> None:
        super().close()
        for node in list(self._sessions):
            self.end(node)
