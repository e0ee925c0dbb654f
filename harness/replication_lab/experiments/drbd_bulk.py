"""What limits a bulk load on a replicated disk: the disk or the link?"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from replication_lab import Case, Lab, Preset, Proof, experiment
from replication_lab.faults import disks
from replication_lab.faults.condition import LinkCondition
from replication_lab.faults.fault import injected
from replication_lab.model.experiment.measuring import Proves, Watch
from replication_lab.replication import drbd_state
from replication_lab.workloads.disk_io import WAYS, BulkWrite
from replication_lab.world import catalogue
from replication_lab.world.machines.drbd import Peer, ResourceStatus

NODE, LINK = "node1", "node1-node2"
NARROW = "slow-100mbit"
WITHIN = 0.1


def workload(_case: Case, preset: Preset) -> BulkWrite:
    return BulkWrite(NODE, preset.sizes["mib"])


def prepare(lab: Lab) -> None:
    """Set the disks to cost nothing: the link is to be the limit if it is slow."""
    disks.limit(drbd_state.disks(lab), drbd_state.FAST)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set up the case's connection, across a slow link if the case has one."""
    machines, toxic = drbd_state.pair(lab), case.settings["toxic"]
    with ExitStack() as stack:
        stack.enter_context(drbd_state.in_state(machines, {}, case.settings["connected"]))
        narrow = injected(LinkCondition(lab, [LINK], toxic, calibrate=True)) if toxic else None
        acting = stack.enter_context(narrow) if narrow else None
        before = [peer.status() for peer in machines]
        yield Proves(lambda: [*(acting.end() if acting else []), *_proofs(case, before, machines)])


def _proofs(case: Case, before: list[ResourceStatus], machines: list[Peer]) -> list[Proof]:
    """Prove that the peer was connected and got every byte, or was disconnected and got none."""
    after, connected = [peer.status() for peer in machines], case.settings["connected"]
    own, there = (now.written_kib - then.written_kib for then, now in zip(before, after, strict=True))
    return [
        drbd_state.was_connected([before[0], after[0]], connected),
        Proof(
            what="the peer wrote what the primary wrote" if connected else "the peer wrote nothing",
            expected=f"{own if connected else 0} KiB",
            found=f"{there} KiB",
            # The tolerance covers what is written between reading the two counters.
            ok=abs(own - there) <= 0.02 * own if connected else there == 0,
        ),
    ]


def predict(case: Case, _figures: dict[str, float]) -> dict[str, float]:
    """Return the law's figures: the slowest part bounds the load, and that is the link of 100 Mbit."""
    if not case.settings["toxic"]:
        return {}
    return {f"{way}_mb_per_second": link_rate() for way in WAYS}


def link_rate() -> float:
    """Return the bandwidth of the slow link in each direction, in MB a second."""
    return (catalogue.toxic(NARROW).rate_kbps or math.inf) / 1000


experiment(
    topology="drbd",
    compared=("direct_mb_per_second", "fsync_mb_per_second"),
    words={"rate": link_rate(), "least": (1 - WITHIN) * link_rate(), "most": (1 + WITHIN) * link_rate()},
    engines=("mariadb",),
    load=workload,
    prepare=prepare,
    arrange=arrange,
    disks=drbd_state.FAST.costs(),
    predict=predict,
)
