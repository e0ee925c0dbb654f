"""Does an order take longer because the branch office is far away?"""

from replication_lab import Case, Preset, claim, experiment, throughput

from ..workloads.carts import Carts

beside = Case("beside", "the branch office is next door", links="lan")
far = Case("far", "the branch office is far away", links="branch-office")

experiment(
    topology="branch",
    cases=[beside, far],
    load=Carts(200),
    claims=[
        claim(
            throughput(far) / throughput(beside) >= 0.33,
            "the shop takes at least a third of the orders when the branch office is far away",
            id="orders-do-not-wait",
        ),
        claim(
            throughput(far) / throughput(beside) >= 10,
            "the shop takes ten times the orders when the branch office is far away",
            id="distance-helps",
        ),
    ],
    presets=[Preset("quick", max_rounds=6)],
    engines=["mariadb", "mysql-8.0"],
)
