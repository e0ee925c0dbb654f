"""A node of a Galera cluster: its view of its group, and what it has applied."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.server import Server

BOOTSTRAP = "wsrep_provider_pc_bootstrap"


@dataclass(frozen=True)
class GaleraStatus:
    """A cluster in the view of one of its nodes; counts are since that node's start, times in ms.

    `view` counts the changes of the cluster's membership. `queue` are the write sets that it has received and not
    applied, `stops` how often it paused the others because of them, and `unsent` those that it has not sent yet.
    `replication_ms` is the (shortest, mean,
    longest) recent time in which the group delivered a message of this node, or None if it sent none.
    """

    ready: bool
    state: str
    primary: bool
    size: int
    view: int
    history: str
    last_committed: int
    cert_failures: int
    bf_aborts: int
    paused_ms: float
    replication_ms: tuple[float, float, float] | None
    addresses: tuple[str, ...]
    queue: int = 0
    stops: int = 0
    unsent: int = 0

    @property
    def synced(self) -> bool:
        return self.ready and self.primary and self.state == "Synced"


@dataclass(frozen=True)
class GaleraNode:
    """A server as a member of its cluster."""

    server: Server

    def status(self) -> GaleraStatus:
        """Return this node's view of its cluster; LabError if the server is in none."""
        status = {row["Variable_name"]: row["Value"] for row in self.server.rows("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")}
        # A node that is leaving or joining may have one without the other.
        if not {"wsrep_local_state_comment", "wsrep_evs_repl_latency"} <= status.keys():
            raise LabError(
                f"{self.server.name} is not in a Galera cluster", "a topology like galera", "./lab up galera"
            )
        shortest, mean, longest, _, messages = (float(part) for part in status["wsrep_evs_repl_latency"].split("/"))
        return GaleraStatus(
            ready=status["wsrep_ready"] == "ON",
            state=status["wsrep_local_state_comment"],
            primary=status["wsrep_cluster_status"] == "Primary",
            size=int(status["wsrep_cluster_size"]),
            view=int(status["wsrep_cluster_conf_id"]),
            history=status["wsrep_cluster_state_uuid"],
            last_committed=int(status["wsrep_last_committed"]),
            cert_failures=int(status["wsrep_local_cert_failures"]),
            bf_aborts=int(status["wsrep_local_bf_aborts"]),
            paused_ms=int(status["wsrep_flow_control_paused_ns"]) / 1e6,
            replication_ms=(shortest * 1000, mean * 1000, longest * 1000) if messages else None,
            addresses=tuple(part.partition(":")[0] for part in status["wsrep_incoming_addresses"].split(",") if part),
            queue=int(status["wsrep_local_recv_queue"]),
            stops=int(status["wsrep_flow_control_sent"]),
            unsent=int(status["wsrep_local_send_queue"]),
        )

    @property
    def bootstrap(self) -> str:
        """The statement by which a node without a majority goes on without the others."""
        known = self.server.settings(BOOTSTRAP)
        return f"SET GLOBAL {BOOTSTRAP} = ON" if known else "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"

    def provider_options(self) -> dict[str, str]:
        """Return the options that Galera's library uses now, by name; none if the server has no such library."""
        text = self.server.settings("wsrep_provider_options").get("wsrep_provider_options", "")
        parts = (part.partition("=") for part in text.split(";") if part.strip())
        return {name.strip(): value.strip() for name, _, value in parts}

    def stored_bytes(self) -> int:
        """Return the size of this node's tables of InnoDB, as its statistics estimate it."""
        stored = "SELECT SUM(DATA_LENGTH) FROM information_schema.TABLES WHERE ENGINE = 'InnoDB'"
        return int(self.server.value(stored) or 0)

    def wait_for_writesets(self) -> None:
        """Wait until this node has applied all writesets that its group had ordered before this call."""
        self.server.execute("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1")
