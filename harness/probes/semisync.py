"""Whether semi-sync did what it says: commits counted as acknowledged, not a status that may be stale."""

import time
from dataclasses import dataclass, field

from harness.record import Proof
from harness.world.clock import wait_until
from harness.world.sql import SemiSync, Server

PROBE = "CREATE TABLE IF NOT EXISTS lab.semisync_probe (at DOUBLE) ENGINE=InnoDB"


def wait_until_acknowledged(source: Server, seconds: float = 20) -> None:
    """Until a commit of our own was acknowledged: right after a change the status says ON and nothing is waited for."""

    def acknowledged() -> bool:
        before = source.semisync().acknowledged
        source.execute(PROBE, f"INSERT INTO lab.semisync_probe VALUES ({time.time():.3f})")
        after = source.semisync()
        return after.active and after.acknowledged >= before + 1

    wait_until(acknowledged, "a commit acknowledged by a semi-synchronous replica", seconds)


@dataclass
class Watch:
    """What a source and its replica said before the load; `proofs(commits)` compares with what they say after it."""

    source: Server
    replica: Server
    wanted: str
    wait_point: str | None
    path: str
    before: SemiSync = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.source.semisync()

    def proofs(self, commits: int) -> list[Proof]:
        """Proofs over a load of `commits` transactions on the source."""
        after = self.source.semisync()
        return [self._counted(after, commits), self._stayed_as_arranged(after), self._replica_is_where_it_should()]

    def _counted(self, after: SemiSync, commits: int) -> Proof:
        acknowledged = after.acknowledged - self.before.acknowledged
        waited_in_vain = after.unacknowledged - self.before.unacknowledged
        if self.wanted != "semisync":
            return Proof(
                what="no commit waited for a replica",
                expected="0 acknowledged",
                found=f"{acknowledged} acknowledged",
                ok=acknowledged == 0,
            )
        return Proof(
            what="semi-sync acknowledged every commit (yes_tx, no_tx)",
            expected=f"{commits} acknowledged, 0 not",
            found=f"{acknowledged} acknowledged, {waited_in_vain} not",
            ok=acknowledged >= commits and waited_in_vain == 0,
        )

    def _stayed_as_arranged(self, after: SemiSync) -> Proof:
        on, is_on = self.wanted == "semisync", after.active and after.enabled
        return Proof(
            what="semi-sync stayed as arranged",
            expected=f"{'ON' if on else 'OFF'} at {self.wait_point or 'its only wait point'}, 0 fall-backs",
            found=f"{'ON' if is_on else 'OFF'} at {after.wait_point or 'its only wait point'}, "
            f"{after.fallbacks - self.before.fallbacks} fall-backs",
            ok=is_on == on and after.fallbacks == self.before.fallbacks and self.wait_point in (None, after.wait_point),
        )

    def _replica_is_where_it_should(self) -> Proof:
        found = self.replica.replication()
        host = "source" if self.path == "direct" else "toxiproxy"
        if self.wanted == "none":
            return Proof(
                what="no replica is connected",
                expected="IO thread stopped",
                found=_threads(found),
                ok=not (found and found.connected),
            )
        return Proof(
            what="the replica replicates by the path of the case",
            expected=f"both threads run, from {host}",
            found=f"{_threads(found)}, from {found.host if found else 'nowhere'}",
            ok=bool(found and found.healthy and found.host == host),
        )


def _threads(found) -> str:
    if found is None:
        return "no source configured"
    return f"IO thread {'runs' if found.connected else 'stopped'}, SQL thread {'runs' if found.applying else 'stopped'}"
