"""Each node's own state, asked once a second in a thread of its own, so that a node that hangs stops nothing else."""

from dataclasses import dataclass

from replication_lab import replication
from replication_lab.live.ticking import Ticking
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.evidence import View
from replication_lab.model.live.view import ViewedDisk
from replication_lab.replication.kind import SILENT
from replication_lab.world import clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.lab import Lab

# An answer that is older counts as no answer.
FRESH_SECONDS, EVERY_SECONDS, DISK_SECONDS = 2.5, 1.0, 5.0


@dataclass(frozen=True)
class Seen:
    """A node's answer: its view, and the transactions that it has committed or applied if they can be counted."""

    view: View
    at: float
    transactions: int | None = None


class NodeWatch:
    """A node's newest answer."""

    def __init__(self, lab: Lab, name: str):
        self.name = name
        self._kind = replication.of(lab.another())
        self._seen = Seen(View(), clock.timer())
        self.ticking = Ticking(f"watch {name}", self._look, EVERY_SECONDS)

    @property
    def seen(self) -> Seen:
        """The newest answer; SILENT if it is too old."""
        seen = self._seen
        return Seen(SILENT, seen.at) if clock.timer() - seen.at > FRESH_SECONDS else seen

    def _look(self) -> None:
        try:
            view = self._kind.view(self.name)
            count = self._kind.transactions(self.name)
        except LabError:
            # A restarted container has other ports.
            self._kind.lab.refresh()
            self._seen = Seen(SILENT, clock.timer())
            return
        self._seen = Seen(view, clock.timer(), count)


class DiskWatch:
    """The emulated disks of a node; they are asked seldom, because each look is a command in a container."""

    def __init__(self, name: str, disks: dict[str, Spindle]):
        self.name, self.disks = name, disks
        self.found: list[ViewedDisk] = []
        self._counted: dict[str, tuple[float, int, int]] = {}
        self.ticking = Ticking(f"disks of {name}", self._look, DISK_SECONDS)

    def _look(self) -> None:
        try:
            self.found = [self._disk(name, spindle) for name, spindle in self.disks.items()]
        except LabError:
            self.found = []

    def _disk(self, name: str, spindle: Spindle) -> ViewedDisk:
        limits, stats, now = spindle.limits(), spindle.stats(), clock.timer()
        before = self._counted.get(name)
        self._counted[name] = (now, stats.writes, stats.flushes)
        seconds = now - before[0] if before else 0.0
        return ViewedDisk(
            name=name,
            write_iops=limits.write_iops,
            read_iops=limits.read_iops,
            bandwidth=limits.bandwidth,
            flush_us=limits.flush_us,
            writes_per_s=round((stats.writes - before[1]) / seconds, 1) if before else None,
            flushes_per_s=round((stats.flushes - before[2]) / seconds, 1) if before else None,
            failed=stats.failed,
        )
