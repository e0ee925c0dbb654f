"""Proofs that semi-sync worked: by commits counted as acknowledged, not by a status that may be stale."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import Watch
from replication_lab.probes.commit_latency import none_too_fast
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync, SemiSyncStatus
from replication_lab.world.mysql.server import Server

PROBE = "CREATE TABLE IF NOT EXISTS lab.semisync_probe (at DOUBLE) ENGINE=InnoDB"


def wait_until_acknowledged(source: Server, seconds: float = 20) -> None:
    """Wait until a commit of the probe's own was acknowledged.

    Right after a change the status says ON although no commit waits yet.
    """

    def acknowledged() -> bool:
        before = SemiSync(source).status().acknowledged
        # A further row of a table that nothing else reads.
        source.execute(PROBE, f"INSERT INTO lab.semisync_probe VALUES ({time.time():.3f})")
        after = SemiSync(source).status()
        return after.active and after.acknowledged >= before + 1

    wait_until(acknowledged, "a semi-synchronous replica to acknowledge a commit", seconds)


@dataclass
class SemiSyncWatch(Watch):
    """The status of a source and its replicas before the load; `proofs` compares it with the status after it.

    `path` is how the replicas reach it: `proxy`, `direct`, or `named`, if a manager tells them its name and packet
    rules lead that to the link. `round_trip_ms` is what the toxics add to the nearest replica's link: no commit may be
    answered sooner.
    """

    source: Server
    replicas: Sequence[Server]
    wanted: str
    wait_point: str | None
    path: str
    clients: int = 1
    round_trip_ms: float = 0
    before: SemiSyncStatus = field(init=False)

    def __post_init__(self) -> None:
        self.before = SemiSync(self.source).status()

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        """Return the proofs over `commits` transactions on the source, the fastest of which took `fastest_ms`."""
        after = SemiSync(self.source).status()
        host = "" if self.wanted == "none" else "toxiproxy" if self.path == "proxy" else self.source.name
        replicas = [connection(replica, host) for replica in self.replicas]
        told = [self._counted(after, commits), self._stayed_as_arranged(after), *replicas]
        waits = self.wanted == "semisync"
        return [*told, *(none_too_fast(fastest_ms, self.round_trip_ms) if waits else [])]

    def _counted(self, after: SemiSyncStatus, commits: int) -> Proof:
        acknowledged = after.acknowledged - self.before.acknowledged
        waited_in_vain = after.unacknowledged - self.before.unacknowledged
        if self.wanted != "semisync":
            return Proof(
                what="no commit waited for a replica's acknowledgement",
                expected="0 acknowledged",
                found=f"{acknowledged} acknowledged",
                ok=acknowledged == 0,
            )
        # MySQL counts a group of commits that waited together as one.
        in_groups = self.source.dialect.acknowledged_in_groups and self.wait_point == "AFTER_SYNC"
        least = math.ceil(commits / self.clients) if in_groups else commits
        return Proof(
            what="semi-sync acknowledged every commit (yes_tx, no_tx)",
            expected=f"at least {least} acknowledged for {commits} commits, 0 unacknowledged",
            found=f"{acknowledged} acknowledged, {waited_in_vain} unacknowledged",
            ok=acknowledged >= least and waited_in_vain == 0,
        )

    def _stayed_as_arranged(self, after: SemiSyncStatus) -> Proof:
        on, is_on = self.wanted == "semisync", after.active and after.enabled
        return Proof(
            what="semi-sync stayed in the state of the case",
            expected=f"{'ON' if on else 'OFF'} at {self.wait_point or 'its only wait point'}, 0 fall-backs",
            found=f"{'ON' if is_on else 'OFF'} at {after.wait_point or 'its only wait point'}, "
            f"{after.fallbacks - self.before.fallbacks} fall-backs",
            ok=is_on == on and after.fallbacks == self.before.fallbacks and self.wait_point in (None, after.wait_point),
        )


def connection(replica: Server, host: str) -> Proof:
    """Return the proof that a replica replicates from this host; if it is empty, that it is not connected."""
    found = Replica(replica).status()
    if not host:
        return Proof(
            what=f"{replica.name} is not connected",
            expected="IO thread stopped",
            found=_threads(found),
            ok=not (found and found.connected),
        )
    return Proof(
        what=f"{replica.name} replicates by the path that the case sets",
        expected=f"both threads run, from {host}",
        found=f"{_threads(found)}, from {found.host if found else 'nowhere'}",
        ok=bool(found and found.healthy and found.host == host),
    )


def _threads(found) -> str:
    return found.threads if found else "no source configured"
