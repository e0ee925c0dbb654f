"""What does a commit on a replicated disk wait for under protocols A, B and C, and what does the round trip change?"""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab import Case, Inserts, Lab, Preset, experiment, replication
from replication_lab.experiments import drbd_cost
from replication_lab.faults import disks
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.replication import drbd_state
from replication_lab.world import catalogue

NODE, LINK = "node1", "node1-node2"
# The topology's own disk: small costs, so that the link makes the difference.
DISK = "ssd"


def workload(_case: Case, preset: Preset) -> Inserts:
    """Return the load: one client, row after row, as in the published test of semi-sync."""
    return Inserts(seconds=preset.sizes["seconds"], nodes=(NODE,))


def prepare(lab: Lab) -> None:
    """Prepare the machines as for drbd_cost, and create the table."""
    drbd_cost.prepare(lab)
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
