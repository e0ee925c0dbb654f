"""The parameters of a system, fitted to points that were measured of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, linear_regression

from replication_lab.predict.pipelines import PIPELINES
from replication_lab.predict.points import AFTER_COMMIT, AFTER_SYNC, ASYNC, DRBD, GALERA, GROUP, AskedLoad, LoadPoint
from replication_lab.predict.simulation import Parameters, simulated

# The round trips that a commit waits for, where the points have one round trip only and do not tell.
TRIPS = {
    ASYNC: 0,
    AFTER_COMMIT: 1,
    AFTER_SYNC: 1,
    GALERA: 1.5,
    GROUP: 2,
    f"{DRBD} A": 0,
    f"{DRBD} B": 1,
    f"{DRBD} C": 1,
}
# Round trips that differ by less, in ms, do not tell how many of them a commit waits for.
APART_MS = 4
# A smaller share of a client's turn is no pause, but its own work between two statements.
LEAST_PAUSE = 0.2
# What is tried for a parameter that no point shows by itself, as a share of the greatest that it can be.
SHARES = (1, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0)
CROWDS = (1, 1.25, 1.5, 1.75, 2, 2.5, 3)
# The points with the most clients, for which that is tried.
TRIED = 3
# A share of the throughput without any waiting that is only missed if clients wait for the CPU.
LOADED = 0.7
SEED = 7


def fitted(points: Sequence[LoadPoint], of_replicas: Sequence[LoadPoint] = ()) -> Parameters:
    """Return the parameters of the system of these points; `of_replicas` are points whose CPU time is known."""
    alone = _alone(points)
    near, far = alone[0], alone[-1]
    trips = float(TRIPS[near.system.pipeline])
    if far.load.rtt_ms - near.load.rtt_ms > APART_MS:
        trips = max((far.p50_ms - near.p50_ms) / (far.load.rtt_ms - near.load.rtt_ms), 0)
    statement = max(near.p50_ms - trips * near.load.rtt_ms, 0.01)
    turn = 1000 * near.load.clients / near.throughput
    pause = turn - fmean(near.latencies_ms or [near.p50_ms])
    fastest = statement - near.p50_ms + min(near.latencies_ms, default=near.p50_ms)
    found = Parameters(
        statement=statement,
        cpu=1000 / max(each.throughput for each in points),
        fastest=max(fastest, 0.01),
        trips=trips,
        think=pause if pause > LEAST_PAUSE * turn else 0,
        flush=statement if near.system.storage else 0,
        # Only a source sends to each replica by a thread of its own.
        cpu_of_replica=_cpu_of_replica(of_replicas) if near.system.pipeline in (ASYNC, AFTER_COMMIT, AFTER_SYNC) else 0,
        replicas=near.load.replicas,
    )
    return _tuned(found, points)


def with_jitter(known: Parameters, points: Sequence[LoadPoint], load: AskedLoad) -> Parameters:
    """Return the parameters with the jitter of the point with the fewest clients whose round trip is the most alike."""
    like = min(_alone(points), key=lambda each: abs(math.log((each.load.rtt_ms + 1) / (load.rtt_ms + 1))))
    return replace(known, jitter=[each - like.p50_ms for each in like.latencies_ms] or [0.0])


def _alone(points: Sequence[LoadPoint]) -> list[LoadPoint]:
    """Return the points with the fewest clients, the shortest round trip first."""
    fewest = min(each.load.clients for each in points)
    return sorted((each for each in points if each.load.clients == fewest), key=lambda each: each.load.rtt_ms)


def _cpu_of_replica(points: Sequence[LoadPoint]) -> float:
    """Return the CPU time in ms of a commit that each replica adds; 0 if it was not measured with several numbers."""
    known = [(each.load.replicas, each.source_cpu_ms) for each in points if each.source_cpu_ms is not None]
    if len({replicas for replicas, _ in known}) <= 1:
        return 0
    return max(linear_regression([replicas for replicas, _ in known], [cpu for _, cpu in known]).slope, 0)


def _tuned(found: Parameters, points: Sequence[LoadPoint]) -> Parameters:
    """Return the parameters with what only many clients show: each the value with the smallest error of throughput."""
    fewest = _alone(points)[0].load.clients
    several = [each for each in points if each.load.clients > fewest]
    if not several:
        return replace(found, cpu=found.fastest - found.flush if found.fastest > found.flush else 0.01)
    # Waiting for others shows across a link, if there is one.
    across = [each for each in several if each.load.rtt_ms > APART_MS] or several
    many = sorted(across, key=lambda each: each.load.clients)[-TRIED:]

    def best(tried: list[Parameters]) -> Parameters:
        return min(tried, key=lambda each: _error(each, many, points))

    saturated = is_saturated(found, points)
    if found.flush:
        least = replace(found, cpu=found.cpu * SHARES[-2])
        found = best([replace(least, crowd=factor) for factor in CROWDS])
    if not saturated:
        found = best([replace(found, cpu=found.cpu * share) for share in SHARES if share])
    if points[0].system.pipeline == AFTER_SYNC:
        found = best([replace(found, hand_over=found.statement * share) for share in SHARES])
    return found


def is_saturated(found: Parameters, points: Sequence[LoadPoint]) -> bool:
    """Return whether clients waited for the CPU at one of the points, so that the CPU time of a commit is known."""
    near = [each for each in points if each.load.rtt_ms < APART_MS and each.load.clients > 1 and not found.flush]
    return any(each.throughput * (found.statement + found.think) < LOADED * 1000 * each.load.clients for each in near)


def _error(known: Parameters, tried: Sequence[LoadPoint], points: Sequence[LoadPoint]) -> float:
    return sum(
        abs(
            math.log(
                simulated(
                    with_jitter(known, points, each.load), each.load, PIPELINES[each.system.pipeline], SEED
                ).throughput
                / each.throughput
            )
        )
        for each in tried
    )
