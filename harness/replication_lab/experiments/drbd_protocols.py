"""What does a commit on a replicated disk wait for under protocols A, B and C, and what does the round trip change?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from replication_lab import replication
from replication_lab.experiments._data import data_beside
from replication_lab.faults import disk_limits
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.quantities import Figure, PerRoundTrip, Ratio, rtt, throughput
from replication_lab.model.lab.disk import Limits
from replication_lab.replication import drbd_state
from replication_lab.workloads.sequential_inserts import SequentialInserts
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines.drbd import CONNECTED, Peer, ResourceStatus

NODE, LINK = "node1", "node1-node2"
WAITS_FOR = {"A": "sent", "B": "in the peer's memory", "C": "written by the peer's disk"}
PLACES = {0: "lan", 1: "campus-1ms", 10: "metro-10ms", 85: "wan-85ms"}
# The topology's own disk: small costs, so that the link makes the difference.
DISK = "ssd"
# A commit is one write of the redo log; there is no binary log.
SERVER = {"innodb_flush_log_at_trx_commit": 1}
MOUNT = "barrier=0"


def _case(protocol: str, milliseconds: int) -> Case:
    return Case(
        f"{protocol.lower()}-{milliseconds}",
        f"protocol {protocol}, {milliseconds} ms",
        {"protocol": protocol},
        frozenset({"drbd"}),
        toxics={LINK: catalogue.toxic(PLACES[milliseconds])},
    )


CASES = tuple(_case(protocol, milliseconds) for protocol in WAITS_FOR for milliseconds in PLACES)


def workload(_case: Case, preset: Preset) -> SequentialInserts:
    """Return the load: one client, row after row, as in the published test of semi-sync."""
    return SequentialInserts(seconds=preset.sizes["seconds"], nodes=(NODE,))


def prepare(lab: Lab) -> None:
    """Fill a redo log as on a server that has run for a while, create the table, remove the disks' limits."""
    replication.of(lab).settle()
    lab.node(NODE).server().set_global(**SERVER)
    drbd_state.pair(lab)[0].tell("remount", MOUNT)
    disk_limits.limit(drbd_state.disks(lab), drbd_state.FAST)
    SequentialInserts(nodes=(NODE,)).prepare(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator["_ProtocolWatch"]:
    """Set the case's protocol and the disks' limits on both machines."""
    machines, protocol, limits = drbd_state.pair(lab), case.settings["protocol"], catalogue.disk(DISK).limits
    with drbd_state.in_state(machines, {"net": (f"--protocol={protocol}",)}, True):
        with disk_limits.limited(drbd_state.disks(lab), limits):
            yield _ProtocolWatch(machines, protocol, limits)


@dataclass
class _ProtocolWatch:
    """A check of both machines: the case's protocol and limits at the end of the load, and connected until then."""

    machines: list[Peer]
    protocol: str
    limits: Limits
    before: ResourceStatus = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.machines[0].status()

    def figures(self) -> dict[str, float]:
        return {}

    def proofs(self, _commits: int, _fastest_ms: float | None = None) -> list[Proof]:
        found = [peer.status() for peer in self.machines]
        said = {f"{status.connection}, protocol {status.protocol}" for status in found}
        expected = f"{CONNECTED}, protocol {self.protocol}"
        return [
            drbd_state.was_connected([self.before, found[0]], True),
            Proof(
                what="both machines use the protocol of the case",
                expected=expected,
                found="; ".join(sorted(said)),
                ok=said == {expected},
            ),
            *(disk_limits.is_unchanged(peer.node, peer.disk, self.limits) for peer in self.machines),
        ]


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """Return the law's figures: a client that waits for the peer's answer commits at most once a round trip."""
    trip = figures.get("rtt_p50_ms")
    if case.settings["protocol"] == "A" or not trip or case.toxics[LINK].name == "lan":
        return {}
    return {"throughput": 1000 / trip}


def _of_the_law(case: str) -> Ratio:
    return throughput(case).over(PerRoundTrip(case, trip="rtt_min_ms"))


def _claims() -> Iterator[Claim]:
    for protocol in ("B", "C"):
        for milliseconds in (1, 10, 85):
            case = f"{protocol.lower()}-{milliseconds}"
            yield Claim(
                f"{case}-waits",
                f"protocol {protocol} at {milliseconds} ms: one client makes at most one commit per round trip",
                _of_the_law(case).at_most(1.0),
                predicted=1.0,
            )
    yield Claim(
        "c-85-one-round-trip",
        "protocol C at 85 ms: a commit takes one round trip (0.95 to 1.3, including the disks' time)",
        Figure("c-85", "latency_p50_ms").over(rtt("c-85")).between(0.95, 1.3),
        predicted=1.0,
    )
    yield Claim(
        "a-85-does-not-wait",
        "protocol A at 85 ms: one client makes at least three commits per round trip",
        throughput("a-85").over(PerRoundTrip("a-85")).at_least(3),
    )
    yield Claim(
        "a-85-costs-little",
        "protocol A at 85 ms: one client makes at least 0.8 times the commits/s that it makes on a LAN",
        throughput("a-85").over(throughput("a-0")).at_least(0.8),
        predicted=1.0,
    )


experiment = Experiment(
    name="drbd_protocols",
    question=__doc__,
    topology="drbd",
    cases=CASES,
    claims=tuple(_claims()),
    presets={
        "quick": Preset("quick", min_rounds=3, max_rounds=16, sizes={"seconds": 5}),
        "full": Preset("full", min_rounds=5, max_rounds=12, sizes={"seconds": 20}),
    },
    engines=("mariadb",),
    workload=workload,
    prepare=prepare,
    arrange=arrange,
    disks=f"{DISK}: {catalogue.disk(DISK).limits.costs()}",
    data=data_beside(__file__),
    predict=predict,
)
