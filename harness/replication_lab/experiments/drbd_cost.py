"""What does a replicated block device under MySQL cost, and which settings avoid that cost?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from replication_lab import Case, Lab, Preset, Proof, experiment, replication
from replication_lab.faults import disks
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.storage import DATA
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.probes.disk_activity import work_of_disk
from replication_lab.replication import drbd_state
from replication_lab.workloads.sysbench import SysbenchOltp
from replication_lab.world import catalogue
from replication_lab.world.disks.spindle import Stats
from replication_lab.world.machines.drbd import STAND_ALONE, Peer, ResourceStatus
from replication_lab.world.mysql.flush import write_pages

NODE = "node1"
DISK = "pc-2014"

# --- settings ---------------------------------------------------------------------------------------------------------

# A commit is one durable write of the redo log; there is no binary log.
SERVER = {"innodb_flush_log_at_trx_commit": 1}
# File systems at the time of the published test did this by default (ext3), or on a trusted disk: an fsync writes, and
# does not flush. Only DRBD flushes then.
MOUNT = "barrier=0"
# Writes inodes and the journal, so that their extents are in DRBD's activity log.
TOUCH = f"touch {DATA}/touched && sync && rm {DATA}/touched && sync"
# Defaults of those published settings that can change a load. Others are DRBD 8.4's defaults already (on-io-error
# detach, sndbuf-size 0), or the resource's file sets one (resync-rate).
DEFAULTS = {"disk-flushes": "yes", "al-extents": "1237", "max-buffers": "2048", "max-epoch-size": "2048"}
OF_CONNECTION = ("max-buffers", "max-epoch-size")


def workload(_case: Case, preset: Preset) -> SysbenchOltp:
    """Return the published load: OLTP read-write, 4 clients, one table."""
    sizes = preset.sizes
    return SysbenchOltp(NODE, sizes["rows"], sizes["seconds"])


# --- arranging --------------------------------------------------------------------------------------------------------


def prepare(lab: Lab) -> None:
    """Fill a redo log as on a server that has run for a while, set variables, remove the disks' limits."""
    replication.of(lab).settle()
    lab.node(NODE).server().set_global(**SERVER)
    drbd_state.pair(lab)[0].tell("remount", MOUNT)
    disks.limit(drbd_state.disks(lab), drbd_state.FAST)


def fill(lab: Lab, preset: Preset) -> None:
    SysbenchOltp(NODE, preset.sizes["rows"]).fill(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator["_CostWatch"]:
    """Set the case's options on both machines, its connection, and slow disks.

    The disks stay fast until nothing is left over from before. Without that, a load of the seventh round waited 22 s
    for pages of earlier loads, and made nine writes a transaction. A change of al-extents, which a case also undoes at
    its end, empties DRBD's activity log: the file system's own blocks and the current place of the redo log have to be
    in it again, or the load waits for each of them.
    """
    machines, limits, server = drbd_state.pair(lab), catalogue.disk(DISK).limits, lab.node(NODE).server()
    with drbd_state.in_state(machines, case.settings["options"], case.settings["connected"]):
        write_pages(server)
        lab.node(NODE).run("guest", "sh", "-c", TOUCH)
        CommitLatency(server).commits(1)
        with disks.limited(drbd_state.disks(lab), limits):
            yield _CostWatch(case, machines, limits)


# --- what the load met ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineLook:
    """A machine at one moment: its resource, and its disk's counters."""

    status: ResourceStatus
    disk: Stats
    settings: dict[str, str]


class _CostWatch:
    """Both machines before the load and after it: the work of their disks, and the check of the case's state."""

    def __init__(self, case: Case, pair: list[Peer], limits: Limits):
        self.case, self.pair, self.limits = case, pair, limits
        self.before = self._look()
        self.after: list[MachineLook]

    def _look(self) -> list[MachineLook]:
        return [MachineLook(peer.status(), peer.disk.stats(), peer.settings()) for peer in self.pair]

    def figures(self) -> dict[str, float]:
        """Return writes, flushes and busy time of both disks during the load, and the activity log's writes."""
        self.after = self._look()
        logged = self.after[0].status.activity_log_writes - self.before[0].status.activity_log_writes
        return {"activity_log_writes": logged} | {
            f"{name}_{what}": number
            for name, then, now in zip(("primary", "peer"), self.before, self.after, strict=True)
            for what, number in _work(then.disk, now.disk).items()
        }

    def proofs(self, _commits: int, _fastest_ms: float | None = None) -> list[Proof]:
        looks = [*self.before, *self.after]
        return [
            drbd_state.was_connected([look.status for look in looks[::2]], self.case.settings["connected"]),
            *([] if self.case.settings["connected"] else [self._peer_rests()]),
            _keeps_order(looks, "d" if "--disk-flushes=no" in self.case.settings["options"].get("disk", ()) else "f"),
            _has_settings(looks, _in_force(self.case)),
            *(self._costs(number) for number in range(len(self.pair))),
            *(disks.is_unchanged(peer.node, peer.disk, self.limits) for peer in self.pair),
        ]

    def _costs(self, number: int) -> Proof:
        """Prove that the disk was busy for as long as its writes and flushes cost by the case's limits."""
        then, now = self.before[number].disk, self.after[number].disk
        work = _work(then, now)
        asked = work["writes"] * 1e6 / self.limits.writes_per_second + work["flushes"] * self.limits.flush_us
        took = now.busy_us - then.busy_us
        return Proof(
            what=f"writes and flushes of {self.pair[number].node}'s disk take the time that its limits set",
            expected=f"{asked / 1e6:.2f} s busy (±5 %)",
            found=f"{took / 1e6:.2f} s for {work['writes']} writes and {work['flushes']} flushes",
            ok=abs(took - asked) <= 0.05 * asked,
            slow=took > 1.05 * asked,
        )

    def _peer_rests(self) -> Proof:
        writes = _work(self.before[1].disk, self.after[1].disk)["writes"]
        return Proof(
            what="a peer in standby writes nothing",
            expected="no write",
            found=f"{writes} writes",
            ok=writes == 0,
        )


def _work(then: Stats, now: Stats) -> dict[str, float]:
    return {
        "writes": now.writes - then.writes,
        "flushes": now.flushes - then.flushes,
        "busy": round(work_of_disk(then, now).busy, 3),
    }


def _in_force(case: Case) -> dict[str, str]:
    """Return the options that a case is about, with the values that its machines should report."""
    words = [word.removeprefix("--").split("=") for group in case.settings["options"].values() for word in group]
    return DEFAULTS | {name: value for name, value in words if name in DEFAULTS}


def _has_settings(looks: list[MachineLook], asked: dict[str, str]) -> Proof:
    """Prove that DRBD acts on the case's options: one that is accepted and ignored would make it another case."""
    # Without a connection a machine has none of a connection's options to report.
    found = [
        (name, look.settings.get(name, "nothing"))
        for look in looks
        for name in DEFAULTS
        if name not in OF_CONNECTION or look.status.connection != STAND_ALONE
    ]
    other = sorted({f"{name} {value}" for name, value in found if value != asked[name]})
    said = ", ".join(f"{name} {value}" for name, value in asked.items())
    return Proof.same("DRBD's options match the case, before the load and after it", ", ".join(other) or said, said)


def _keeps_order(looks: list[MachineLook], order: str) -> Proof:
    found = sorted({look.status.write_order for look in looks})
    return Proof(
        what="DRBD keeps the order of writes by the method of the case",
        expected={"f": "by flushes (wo:f)", "d": "by draining (wo:d)"}[order],
        found=", ".join(f"wo:{each}" for each in found),
        ok=found == [order],
    )


# --- the law ----------------------------------------------------------------------------------------------------------


def kept() -> float:
    """Return the law's share: a commit waits W alone, and W + F if the peer flushes after it; the loss is F/(W+F).

    W and F are the times of a write and of a flush of the cases' disk.
    """
    limits = catalogue.disk(DISK).limits
    write_us = 1e6 / limits.writes_per_second
    return write_us / (write_us + limits.flush_us)


experiment(
    topology="drbd",
    words={"kept": kept(), "gained": 1 / kept()},
    engines=("mariadb",),
    load=workload,
    prepare=prepare,
    fill=fill,
    arrange=arrange,
    disks=f"{DISK}: {catalogue.disk(DISK).limits.costs()}",
)
