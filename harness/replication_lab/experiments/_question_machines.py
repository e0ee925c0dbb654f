"""The cases of a user's question on a replicated disk: set DRBD's protocol before a load, and prove it afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from replication_lab import replication
from replication_lab.model.experiment import Case
from replication_lab.model.measuring import Watch
from replication_lab.model.proof import Proof
from replication_lab.probes.waited import none_too_fast
from replication_lab.replication import drbd_state
from replication_lab.replication.abilities import ChoosesServer
from replication_lab.replication.drbd import Machines
from replication_lab.replication.pacemaker import prove_service
from replication_lab.world.docker.lab import Lab
from replication_lab.world.drbd import CONNECTED, PRIMARY, Peer, Status

# As the resource's file says.
BY_DEFAULT = "C"
# Under A a write completes when it is sent, and does not wait for the peer.
WAIT_FOR_PEER = ("B", "C")
FLUSH = "innodb_flush_log_at_trx_commit"
# The values with which a commit is acknowledged after its write, not before.
FLUSHED = ("1", "3")


def make_machines_ready(lab: Lab) -> None:
    """Make the first machine serve, with a redo log as after a long run."""
    pair, first = replication.of(lab), lab.topology.source.name
    if isinstance(pair, ChoosesServer):
        pair.let_serve(first)
    if isinstance(pair, Machines):
        pair.fill_redo(first)


@contextmanager
def arrange_machines(lab: Lab, case: Case, round_trip_ms: float) -> Iterator[Watch]:
    """Set the case's protocol on both machines; yield the watch that proves their state over the load."""
    asked = case.settings["protocol"]
    machines, options = drbd_state.pair(lab), {"net": (f"--protocol={asked}",)} if asked else {}
    with drbd_state.in_state(machines, options, connected=True):
        yield _Watch(lab, machines, asked or BY_DEFAULT, round_trip_ms)


@dataclass
class _Watch:
    """The state of both machines before a load; `proofs` proves that it lasted, and that no commit was too fast.

    `round_trip_ms` is the delay that the toxics add to the link. With a cluster manager the service must not have
    moved.
    """

    lab: Lab
    machines: list[Peer]
    protocol: str
    round_trip_ms: float
    before: Status = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.machines[0].status()

    def figures(self) -> dict[str, float]:
        return {}

    def proofs(self, _commits: int, fastest_ms: float | None = None) -> list[Proof]:
        after = [peer.status() for peer in self.machines]
        waits = self.protocol in WAIT_FOR_PEER and self._flushes()
        return [
            drbd_state.was_connected([self.before, after[0]], True),
            self._same_primary(after[0]),
            self._protocol_of(after),
            *(none_too_fast(fastest_ms, self.round_trip_ms) if waits else []),
            *(prove_service(self.lab) if self.lab.topology.manager else []),
        ]

    def _same_primary(self, after: Status) -> Proof:
        found = [self.before.role, after.role]
        return Proof(
            what=f"{self.machines[0].node} was primary before and after the load",
            expected=PRIMARY,
            found=", ".join(dict.fromkeys(found)),
            ok=set(found) == {PRIMARY},
        )

    def _protocol_of(self, after: list[Status]) -> Proof:
        said = {f"{status.connection}, protocol {status.protocol}" for status in after}
        expected = f"{CONNECTED}, protocol {self.protocol}"
        return Proof(
            what="both machines use the protocol of the case",
            expected=expected,
            found="; ".join(sorted(said)),
            ok=said == {expected},
        )

    def _flushes(self) -> bool:
        """Return whether the server acknowledges a commit after writing its log; the user's settings decide."""
        server = self.machines[0].machine.server()
        return str(server.value(f"SELECT @@GLOBAL.{FLUSH}")) in FLUSHED
