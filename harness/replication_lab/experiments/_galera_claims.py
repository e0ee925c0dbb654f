"""The claims of galera_vs_semisync about its cases."""

from collections.abc import Iterator

from replication_lab.experiments._far import Far
from replication_lab.experiments._galera_cases import (
    CLIENTS,
    LOADS,
    SYSTEMS,
    TWO,
    WINDOWED,
    WRITERS,
    distances,
    said_clients,
)
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.quantities import PerRoundTrip, Total, p50, rtt, throughput

# The chart was published without values. A smaller gain justifies no replacement, nor is it visible in a chart.
OUTPERFORMS = 1.1


def claims(wan: Far) -> tuple[Claim, ...]:
    return (
        *(
            _outperforms(wan, system, distance, clients)
            for system in SYSTEMS
            if SYSTEMS[system].wait_point
            for distance in distances(wan)
            for clients in CLIENTS
        ),
        *_claims_on_windows(wan),
        *_claims_on_waiting(wan),
        *_claims_on_hot_row(),
        *_claims_on_safety(wan),
        *_claims_on_a_slow_node(),
    )


def _outperforms(wan: Far, other: str, distance: str, clients: int) -> Claim:
    galera = "galera2" if other in TWO else "galera"
    faster, slower = f"{galera}-{distance}-{clients}", f"{other}-{distance}-{clients}"
    return Claim(
        f"faster-than-{slower}",
        f"{distances(wan)[distance]} with {said_clients(clients)}, {SYSTEMS[galera].about} outperforms "
        f"{SYSTEMS[other].about}: at least 10 % more commits/s",
        throughput(faster) / throughput(slower) >= OUTPERFORMS,
    )


def _claims_on_windows(wan: Far) -> Iterator[Claim]:
    for clients in WINDOWED:
        windowed = throughput(f"galera-windows-{wan.name}-{clients}")
        yield Claim(
            f"windows-help-{clients}",
            f"at {wan.said} with {clients} clients, Galera makes more commits/s with wider send windows "
            "(evs.send_window)",
            windowed / throughput(f"galera-{wan.name}-{clients}") >= 1.0,
        )
        yield Claim(
            f"faster-with-windows-than-after-commit-{wan.name}-{clients}",
            f"at {wan.said} with {clients} clients and wider send windows, Galera outperforms semi-sync "
            "(AFTER_COMMIT): at least 10 % more commits/s",
            windowed / throughput(f"after-commit-{wan.name}-{clients}") >= OUTPERFORMS,
        )


def _claims_on_waiting(wan: Far) -> tuple[Claim, ...]:
    one, many = f"galera-{wan.name}-1", f"galera-{wan.name}-64"
    after_sync = f"after-sync-{wan.name}-1"
    return (
        Claim(
            "galera-commit-waits",
            "one client's commit on a Galera cluster takes at least one round trip",
            p50(one) / rtt(one) >= 1.0,
            predicted=1.0,
            law=True,
        ),
        Claim(
            "galera-commit-is-one-round-trip",
            "one client's commit on a Galera cluster takes one round trip (±5 %)",
            (p50(one) / rtt(one)).equals(within=0.05),
            predicted=1.0,
            law=True,
        ),
        Claim(
            "after-sync-commit-is-one-round-trip",
            "one client's semi-synchronous commit (AFTER_SYNC) takes one round trip (±5 %)",
            (p50(after_sync) / rtt(after_sync)).equals(within=0.05),
            predicted=1.0,
            law=True,
        ),
        Claim(
            "clients-add-up",
            f"at {wan.said}, 64 clients of a Galera cluster make at least 32 times the commits/s of one client",
            throughput(many) / throughput(one) >= 32,
            predicted=64.0,
        ),
        # On a LAN the result would depend on which nodes share their CPUs with the clients.
        Claim(
            "writing-nodes-cost-nothing",
            f"at {wan.said}, 64 clients on three nodes make at least 0.8 times the commits/s that they make on one "
            "node",
            throughput(f"{many}-on-3") / throughput(many) >= 0.8,
        ),
    )


def _claims_on_hot_row() -> tuple[Claim, ...]:
    return tuple(
        Claim(
            f"{case}-once-a-round-trip",
            f"{said}: the same row changes at most once per round trip",
            throughput(case) / PerRoundTrip(case) <= 1.05,
            predicted=1.0,
            law=True,
        )
        for case, said in (
            *((f"hot-galera-{n}", f"Galera, {said} writer {nodes}") for n, (said, nodes) in WRITERS.items()),
            ("hot-after-sync", "semi-sync (AFTER_SYNC)"),
            ("hot-after-commit", "semi-sync (AFTER_COMMIT)"),
        )
    )


def _claims_on_safety(wan: Far) -> tuple[Claim, ...]:
    both = distances(wan)
    kept = [
        claim
        for load, what in LOADS.items()
        for distance in both
        for claim in _kept(f"{load}-{distance}", f"{what} on all nodes, {both[distance]}")
    ]
    sums = [
        Claim(
            f"bank-{distance}-sum-is-kept",
            f"bank transfers on all nodes, {both[distance]}: every read on every node finds the same sum of the "
            "accounts",
            Total(f"bank-{distance}", "wrong_sums").is_zero(trials="reads", at_least=30),
            predicted=0.0,
            law=True,
        )
        for distance in both
    ]
    return (
        *kept,
        *sums,
        *_kept("hot-galera-3", f"one row updated from three nodes, at {wan.said}"),
        *_conflicts("hot-galera-3"),
    )


def _kept(case: str, said: str) -> tuple[Claim, Claim]:
    return (
        Claim(
            f"{case}-loses-nothing",
            f"{said}: no acknowledged update is lost",
            Total(case, "lost_updates").is_zero(trials="commits", at_least=30),
            predicted=0.0,
            law=True,
        ),
        Claim(
            f"{case}-copies-agree",
            f"{said}: afterwards all copies hold the same sum (at least 3 copies compared)",
            Total(case, "diverged").is_zero(trials="copies", at_least=3),
            predicted=0.0,
            law=True,
        ),
    )


def _conflicts(case: str) -> tuple[Claim, ...]:
    return (
        Claim(
            "conflicts-are-deadlocks",
            "conflicting writers on several nodes receive a deadlock error (1213)",
            Total(case, "deadlocks").is_positive(),
            law=True,
        ),
        Claim(
            "conflicts-fail-certification",
            "some transactions fail certification (wsrep_local_cert_failures)",
            Total(case, "cert_failures").is_positive(),
            law=True,
        ),
        Claim(
            "conflicts-abort-locally",
            "some transactions are aborted for a transaction of another node (wsrep_local_bf_aborts)",
            Total(case, "bf_aborts").is_positive(),
            law=True,
        ),
    )


def _claims_on_a_slow_node() -> tuple[Claim, ...]:
    return (
        Claim(
            "slow-node-throttles-galera",
            "a node limited to a tenth of a CPU costs the whole Galera cluster at least half of its commits/s",
            throughput("slow-galera") / throughput("galera-lan-64") <= 0.5,
        ),
        Claim(
            "slow-replica-does-not-throttle-semisync",
            "with one of two replicas limited to a tenth of a CPU, semi-sync keeps at least 0.8 times its "
            "commits/s, because the other replica acknowledges",
            throughput("slow-after-commit") / throughput("after-commit-lan-64") >= 0.8,
        ),
    )
