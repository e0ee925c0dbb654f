"""The speed of the CPUs while a load runs: the CPU time of a short loop on the CPUs that the load uses.

A virtual machine's CPU is often one thread of a core. While another machine uses the core's other thread, the same work
takes about 1.4 times as long, and no stolen time is counted (docs/statistics.md).
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean

from replication_lab.world import clock, host
from replication_lab.world.client_place import HERE, ClientPlace

# The loop takes about 0.3 ms. At this interval it uses less than a hundredth of one CPU.
LOOPS, EVERY_SECONDS = 20_000, 0.05
# Fewer readings say nothing.
FEWEST = 5
# The busy and the total seconds of each CPU.
Busy = dict[int, tuple[float, float]]


@dataclass
class Speed:
    """The CPU time of the loop in microseconds, the mean of the CPUs weighted by their use; None if too short."""

    loop_us: float | None = None


class SpeedMeter:
    """Runs the loop on the CPUs of the machine where it is made, until `stop`."""

    def __init__(self) -> None:
        self._readings: dict[int, list[float]] = defaultdict(list)
        self._done, self._before = threading.Event(), host.seconds_by_cpu()
        arguments = (self._readings, self._done)
        self._sampler = threading.Thread(target=_sample, args=arguments, daemon=True, name="CPU speed")
        self._sampler.start()

    def stop(self) -> float | None:
        """Return the mean CPU time of the loop since the start; None for too few readings."""
        self._done.set()
        self._sampler.join()
        return _weighted(self._readings, self._before, host.seconds_by_cpu())


@contextmanager
def measured_speed(place: ClientPlace = HERE) -> Iterator[Speed]:
    """Measure at a place within the block; the yielded speed is set at its end.

    It stays None where threads cannot be pinned.
    """
    found = Speed()
    if place is HERE and not hasattr(os, "sched_setaffinity"):
        yield found
        return
    meter = place.make(SpeedMeter)
    try:
        yield found
    finally:
        loop_us = meter.stop()
    found.loop_us = loop_us


def _sample(readings: dict[int, list[float]], done: threading.Event) -> None:
    """Run the loop again and again, more often on a CPU that is used more; only this thread is pinned.

    A server may use only one of many CPUs. If all CPUs took turns, that one would have few readings.
    """
    cpus, before = sorted(os.sched_getaffinity(0)), host.seconds_by_cpu()
    while not done.is_set():
        cpu = _next(cpus, readings, _used(cpus, before, host.seconds_by_cpu()))
        os.sched_setaffinity(0, {cpu})
        readings[cpu].append(loop_us())
        clock.pause(EVERY_SECONDS, unless=done)


def _next(cpus: list[int], readings: Mapping[int, list[float]], used: Mapping[int, float]) -> int:
    """Return the CPU that has the fewest readings for its use."""
    return max(cpus, key=lambda cpu: used[cpu] / (len(readings.get(cpu, ())) + 1))


def _used(cpus: Iterable[int], before: Busy, after: Busy) -> dict[int, float]:
    """Return the busy seconds of each CPU; a small share of one for a CPU that was idle: all may have been idle."""
    return {cpu: 0.01 + after.get(cpu, (0, 0))[0] - before.get(cpu, (0, 0))[0] for cpu in cpus}


def loop_us() -> float:
    """Return the CPU time of one loop in microseconds; waiting for the CPU does not count."""
    began = time.thread_time()
    for _ in range(LOOPS):
        pass
    return (time.thread_time() - began) * 1e6


def _weighted(readings: dict[int, list[float]], before: Busy, after: Busy) -> float | None:
    """Return the mean of all CPUs, each weighted by the time that it was busy; None for too few readings."""
    if sum(map(len, readings.values())) < FEWEST:
        return None
    weights = _used(readings, before, after)
    total = sum(weights[cpu] * mean(values) for cpu, values in readings.items())
    return round(total / sum(weights.values()), 1)
