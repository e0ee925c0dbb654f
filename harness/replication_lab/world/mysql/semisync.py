"""Semi-sync at one server: its status as a source, and its settings on either side."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.server import Server

# The longest timeout that every server takes: 49 days.
LONGEST_MS = 2**32 - 1


@dataclass(frozen=True)
class SemiSyncStatus:
    """A source's semi-sync status."""

    enabled: bool
    active: bool
    replicas: int
    acknowledged: int
    unacknowledged: int
    fallbacks: int
    wait_point: str | None
    timeout_ms: int
    # How many acknowledgements a commit waits for; None on a server that always waits for one.
    acknowledgements: int | None = None

    def words(self) -> str:
        """Return the status of a source with semi-sync."""
        counted = f"{self.replicas} replica(s), {self.acknowledged} commits acknowledged"
        waits = f"{self.wait_point or 'AFTER_COMMIT'}, {counted}"
        return f"semi-sync {'ON' if self.active else 'OFF (fell back to asynchronous)'}, {waits}"


@dataclass(frozen=True)
class SemiSync:
    """A server's semi-sync settings and counters."""

    server: Server

    def status(self) -> SemiSyncStatus:
        prefix, count = self.server.dialect.semisync_source, self.server.dialect.semisync_count
        status = self._named(f"SHOW GLOBAL STATUS LIKE '{prefix}%'")
        variables = self._named(f"SHOW GLOBAL VARIABLES LIKE '{prefix}%'")
        return SemiSyncStatus(
            enabled=variables.get(f"{prefix}_enabled") == "ON",
            active=status.get(f"{prefix}_status") == "ON",
            replicas=int(status.get(f"{prefix}_clients", 0)),
            acknowledged=int(status.get(f"{prefix}_yes_tx", 0)),
            unacknowledged=int(status.get(f"{prefix}_no_tx", 0)),
            fallbacks=int(status.get(f"{prefix}_no_times", 0)),
            wait_point=variables.get(f"{prefix}_wait_point"),
            timeout_ms=int(variables.get(f"{prefix}_timeout", 0)),
            acknowledgements=int(variables[count]) if count in variables else None,
        )

    def _named(self, statement: str) -> dict[str, str]:
        return {row["Variable_name"].lower(): row["Value"] for row in self.server.rows(statement)}

    def set(
        self,
        enabled: bool,
        wait_point: str | None = None,
        timeout_ms: int | None = None,
        acknowledgements: int | None = None,
    ) -> None:
        """Set the source's side of semi-sync. `wait_point` is AFTER_SYNC or AFTER_COMMIT, on servers that have both.

        `acknowledgements` is how many replicas a commit waits for; LabError for more than one on a server that cannot.
        """
        prefix, count = self.server.dialect.semisync_source, self.server.dialect.semisync_count
        if count and acknowledgements:
            self.server.set_global(**{count: acknowledgements})
        elif (acknowledgements or 1) > 1:
            raise LabError(
                f"{acknowledgements} acknowledgements for each commit of {self.server.name}",
                "1, because its semi-sync waits for one replica",
                "./lab list engines",
            )
        if wait_point:
            self.server.set_global(**{f"{prefix}_wait_point": wait_point})
        if timeout_ms:
            self.server.set_global(**{f"{prefix}_timeout": timeout_ms})
        self.server.set_global(**{f"{prefix}_enabled": int(enabled)})

    def enable_semisync_replica(self) -> None:
        """Enable the replica's side of semi-sync, from its next connection on."""
        self.server.set_global(**{f"{self.server.dialect.semisync_replica}_enabled": 1})
