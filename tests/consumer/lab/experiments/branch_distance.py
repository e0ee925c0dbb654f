"""Does an order take longer because the branch office is far away?"""

from contextlib import contextmanager

from replication_lab import Case, Claim, Experiment, Preset, throughput
from replication_lab.probes import semisync

from ..workloads.carts import Carts

LINK = "source-replica"


@contextmanager
def arrange(lab, _case):
    """Yield what proves after the load that the replica replicated all the time."""
    yield semisync.SemiSyncWatch(lab.node("source").server(), [lab.node("replica").server()], "async", None, "proxy")


experiment = Experiment(
    name="branch_distance",
    question=__doc__,
    topology="branch",
    cases=(
        Case("beside", "the branch office is next door", {"toxics": {LINK: "lan"}}),
        Case("far", "the branch office is far away", {"toxics": {LINK: "branch-office"}}),
    ),
    claims=(
        Claim(
            "orders-do-not-wait",
            "the shop takes at least a third of the orders when the branch office is far away",
            throughput("far").over(throughput("beside")).at_least(0.33),
        ),
        Claim(
            "distance-helps",
            "the shop takes ten times the orders when the branch office is far away",
            throughput("far").over(throughput("beside")).at_least(10),
        ),
    ),
    presets={"quick": Preset("quick", min_rounds=3, max_rounds=6, sizes={"orders": 200})},
    engines=("mariadb", "mysql-8.0"),
    workload=lambda _case, preset: Carts(preset.sizes["orders"]),
    prepare=Carts().prepare,
    arrange=arrange,
)
