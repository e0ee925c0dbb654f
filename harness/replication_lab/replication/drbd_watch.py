"""Two machines with one replicated disk over a load: the primary stays, and DRBD's protocol is the one of the case."""

from dataclasses import dataclass, field

from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import Watch
from replication_lab.probes.commit_latency import none_too_fast
from replication_lab.replication import drbd_state
from replication_lab.world.machines.drbd import CONNECTED, PRIMARY, Peer, ResourceStatus

# As the resource's file says.
BY_DEFAULT = "C"
# Under A a write completes when it is sent, and does not wait for the peer.
WAIT_FOR_PEER = ("B", "C")
FLUSH = "innodb_flush_log_at_trx_commit"
# The values with which a commit is acknowledged after its write, not before.
FLUSHED = ("1", "3")


@dataclass
class ReplicatedDiskWatch(Watch):
    """The state of both machines before a load; `proofs` proves that it lasted, and that no commit was too fast.

    `round_trip_ms` is the delay that the toxics add to the link.
    """

    machines: list[Peer]
    protocol: str
    round_trip_ms: float
    before: ResourceStatus = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.machines[0].status()

    def proofs(self, _commits: int, fastest_ms: float | None = None) -> list[Proof]:
        after = [peer.status() for peer in self.machines]
        waits = self.protocol in WAIT_FOR_PEER and self._flushes()
        said = {f"{status.connection}, protocol {status.protocol}" for status in after}
        expected = f"{CONNECTED}, protocol {self.protocol}"
        found = [self.before.role, after[0].role]
        return [
            drbd_state.was_connected([self.before, after[0]], True),
            Proof(
                what=f"{self.machines[0].node} was primary before and after the load",
                expected=PRIMARY,
                found=", ".join(dict.fromkeys(found)),
                ok=set(found) == {PRIMARY},
            ),
            Proof(
                what="both machines use the protocol of the case",
                expected=expected,
                found="; ".join(sorted(said)),
                ok=said == {expected},
            ),
            *(none_too_fast(fastest_ms, self.round_trip_ms) if waits else []),
        ]

    def _flushes(self) -> bool:
        """Return whether the server acknowledges a commit after writing its log; the user's settings decide."""
        server = self.machines[0].machine.server()
        return str(server.value(f"SELECT @@GLOBAL.{FLUSH}")) in FLUSHED
