"""A load from the harness itself: one act after another, each of them timed."""

from collections.abc import Callable

from replication_lab.model.experiment.measuring import LoadOutcome
from replication_lab.workloads.inserts import Inserted
from replication_lab.world import clock


def timed(act: Callable[[], object], times: int) -> LoadOutcome:
    """Do this so many times; return the throughput and the latencies. Each act is one transaction that writes."""
    latencies, began = [], clock.timer()
    for _ in range(times):
        at = clock.timer()
        act()
        latencies.append((clock.timer() - at) * 1000)
    return Inserted(times, times / max(clock.timer() - began, 1e-6), latencies)
