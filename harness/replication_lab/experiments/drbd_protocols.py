"""What does a commit on a replicated disk wait for under protocols A, B and C, and what does the round trip change?"""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab import Case, Inserts, Lab, Preset, experiment, replication
from replication_lab.faults import disks
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.replication import drbd_state
from replication_lab.world import catalogue

NODE, LINK = "node1", "node1-node2"
# The topology's own disk: small costs, so that the link makes the difference.
DISK = "ssd"
# A commit is one write of the redo log; there is no binary log.
SERVER = {"innodb_flush_log_at_trx_commit": 1}
MOUNT = "barrier=0"


def workload(_case: Case, preset: Preset) -> Inserts:
    """Return the load: one client, row after row, as in the published test of semi-sync."""
    return Inserts(seconds=preset.sizes["seconds"], nodes=(NODE,))


def prepare(lab: Lab) -> None:
    """Fill a redo log as on a server that has run for a while, create the table, remove the disks' limits."""
    replication.of(lab).settle()
    lab.node(NODE).server().set_global(**SERVER)
    drbd_state.pair(lab)[0].tell("remount", MOUNT)
    disks.limit(drbd_state.disks(lab), drbd_state.FAST)
    Inserts(nodes=(NODE,)).prepare(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set the case's protocol and the disks' limits on both machines."""
    limits = catalogue.disk(DISK).limits
    with replication.of(lab).arranged(case) as watch, disks.limited(drbd_state.disks(lab), limits):
        peers = drbd_state.pair(lab)
        yield AlsoProves(watch, lambda: [disks.is_unchanged(peer.node, peer.disk, limits) for peer in peers])


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """Return the law's figures: a client that waits for the peer's answer commits at most once a round trip."""
    trip = figures.get("rtt_p50_ms")
    if case.state.protocol == "A" or not trip or case.toxics[LINK].name == "lan":
        return {}
    return {"throughput": 1000 / trip}


experiment(
    topology="drbd",
    engines=("mariadb",),
    load=workload,
    prepare=prepare,
    arrange=arrange,
    disks=f"{DISK}: {catalogue.disk(DISK).limits.costs()}",
    predict=predict,
)
