"""What other programs on the machine can have changed about the figures of a drill."""

import math

from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.evidence import Evidence, NoiseWhile

RATIOS = ("latency_ratio", "throughput_ratio")
# The unit at the end of a figure's name, and how many of it are a second.
TIMES = {"_s": 1, "_ms": 1000}
APPLICATION = "app."
# What a manager does or leaves undone within some seconds: on a slow machine its checks fail, and its acts come late.
OF_MANAGERS = ("not_failed_over", "false_failovers", "left_to_do")


def noisiest(figure: str, evidence: Evidence) -> NoiseWhile | None:
    """Return the part of the load that a figure is about in which others used most of the CPUs; None if none did."""
    until = evidence.mended if figure.startswith(RATIOS) else math.inf
    noisy = [each for each in evidence.noise if not each.noise.quiet and each.end <= until]
    return max(noisy, key=lambda each: each.noise.foreign_cpu or 0.0, default=None)


def possible(figure: str, found: float, evidence: Evidence) -> tuple[float, float]:
    """Return the smallest and the largest value that a figure may have had on a quiet machine.

    Other programs only lengthen a time, and by no more than the load lasted. They can make a ratio of two rates or two
    latencies larger or smaller. What is counted happened, also on a noisy machine; but a manager decides by time, and
    fails by it.
    """
    if noisiest(figure, evidence) is None:
        return found, found
    if figure.startswith(RATIOS):
        return 0.0, math.inf
    if figure in OF_MANAGERS:
        return 0.0, found
    # A figure of a node ends with the node's name, one of the application with its unit.
    name = figure if figure.startswith(APPLICATION) else figure.partition(".")[0]
    begin, end = evidence.load
    for unit, of_a_second in TIMES.items():
        if name.endswith(unit):
            return max(found - (end - begin) * of_a_second, 0.0), found
    return found, found


def disturbance(asked: Expectation, found: float | str, evidence: Evidence) -> str:
    """Return why the verdict on an expectation may be another one on a quiet machine; empty if it is certain."""
    noisy = noisiest(asked.figure, evidence)
    if noisy is None or isinstance(found, str):
        return ""
    low, high = possible(asked.figure, found, evidence)
    return "" if asked.holds(low) == asked.holds(found) == asked.holds(high) else str(noisy)
