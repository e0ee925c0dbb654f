"""What does a commit cost when a replica 85 ms away must acknowledge it?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from replication_lab import Case, Inserts, Lab, Preset, experiment, replication
from replication_lab.experiments._far import Far
from replication_lab.model.experiment.measuring import Watch
from replication_lab.witnesses.servers import readers
from replication_lab.workloads.read_visibility import FirstSeen
from replication_lab.world import clock
from replication_lab.world.mysql.replica import Replica

LINK = "source-replica"
PATH_SECONDS = 30
# The published my.cnf, without obsolete values and those of every lab; 5.5 did not sync its binary log.
RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
# The published client's own time for an insert: 9.37 s for 10 000 of them, of which the server took 0.18 ms each.
# Without this pause a current server, at 0.03 ms an insert, would measure CPU contention, not the cost of replication.
THINK_MS = 9.37e3 / 10_000 - 0.18


def workload(case: Case, preset: Preset) -> Inserts | FirstSeen:
    """Return the load of a case: the published test, with as many rows or seconds as the preset says."""
    if case.settings.get("workload") == "first-seen":
        return FirstSeen(rows=preset.sizes["seen_rows"])
    clients = case.state.clients
    if _waits_a_round_trip(case) and clients > 1:
        # By time: where commits do not pipeline, the rows of 64 clients would take 64 times as long.
        return Inserts(clients=clients, seconds=preset.sizes["far_seconds"])
    if _waits_a_round_trip(case):
        return Inserts(rows=preset.sizes["far_rows"])
    return Inserts(rows=preset.sizes["near_rows"], seconds=preset.sizes["near_seconds"], think_ms=THINK_MS)


def _waits_a_round_trip(case: Case) -> bool:
    return case.state.replication == "semisync" and LINK in case.toxics and case.toxics[LINK].round_trip_ms > 0


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set up a case's replication by its path, and wait for it before the load; yield the watch that proves it."""
    if case.state.replication != "none":
        _dial(lab, case.settings.get("path", "proxy"))
    with replication.of(lab).arranged(case) as watch:
        yield watch


def _dial(lab: Lab, path: str) -> None:
    replica = Replica(lab.node("replica").server())
    host, port = ("source", 3306) if path == "direct" else ("toxiproxy", lab.topology.link(LINK).port)
    found = replica.status()
    if found is None or (found.host, found.port) != (host, port):
        replica.replicate_from(host, port)
    if path != "direct":
        # A source ends the thread of the path before a moment after the new one has begun.
        own, source = lab.service("replica").addresses(), lab.node("source").server()
        clock.wait_until(lambda: not readers(source) & own, "the end of the path past the link", PATH_SECONDS)


def prepare(lab: Lab) -> None:
    """Pin CPUs as for the published test's sites, set its variables on the source, create the table and the script."""
    lab.pin_cpus(("source", "load"), ("replica", "toxiproxy"))
    lab.node("source").server().set_global(**RELAXED)
    Inserts().prepare(lab)


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """Return the laws' figures: a semi-synchronous commit waits one round trip; n clients commit n/RTT a second."""
    trip = figures.get("rtt_p50_ms")
    if not _waits_a_round_trip(case) or not trip:
        return {}
    if case.settings.get("workload") == "first-seen":
        return {"seen_ahead_ms": trip if case.state.wait_point == "AFTER_COMMIT" else 0.0}
    return {"latency_p50_ms": trip, "throughput": case.state.clients * 1000 / trip}


def _at(wan: Far) -> dict[str, Any]:
    return {
        "question": f"What does a commit cost when a replica {wan.said} away must acknowledge it?",
        "words": wan.words,
    }


experiment(
    topology="semisync",
    engines=("mariadb", "mariadb-10.11", "mysql-8.0", "mysql-5.6", "mysql-5.5", "mysql", "percona"),
    watched=True,
    load=workload,
    prepare=prepare,
    arrange=arrange,
    predict=predict,
    at=_at,
)
