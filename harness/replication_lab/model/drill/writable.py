"""In which time two servers took writes at once, how exactly that is known, and what is not known without it."""

import math
from itertools import pairwise

from replication_lab.model.drill.checkers import Figures, Window, together
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.evidence import Evidence

# The longest time for which a server that may take writes is not read. Servers are asked three times a second.
LONGEST_GAP_SECONDS = 1.5
# The seconds in which two servers said at once that they take writes.
TWO_WRITABLE = "two_writable_s"
# What is known of a manager only by which servers took writes.
OF_MANAGERS = ("failovers", "not_failed_over", "false_failovers", "left_to_do", "promoted_s")


def without_unread(figures: Figures, evidence: Evidence) -> tuple[Figures, list[str]]:
    """Return the figures that are known although a server was not read for a while, and why the others are not."""
    if not any(evidence.unread.values()):
        return figures, []
    depend = (TWO_WRITABLE, *(OF_MANAGERS if evidence.drill.manager else ()))
    known = {name: value for name, value in figures.items() if name not in depend}
    gaps = "; ".join(
        f"{node} may have taken writes from {begin:.1f} to {end:.1f} s, when it did not answer: "
        f"{end - begin:.1f} s without a reading, at most {LONGEST_GAP_SECONDS:g} s are allowed"
        for node, own in evidence.unread.items()
        for begin, end in own
    )
    return known, [f"{', '.join(depend)} not known: {gaps}"]


def bounds(evidence: Evidence) -> Window:
    """Return the least and the most seconds in which two servers took writes, as exactly as they were read.

    A server takes writes at a reading, and may have done so since the reading before. It is counted until the next one.
    """
    every = evidence.read_every_s
    least = {
        node: [(at, end - every) for at, end in own if end - at > every] for node, own in evidence.writable.items()
    }
    # Two spans of one server are not two servers: a begin is after the end before it.
    most = {
        node: [(max(at - every, before), end) for (_, before), (at, end) in pairwise([(0.0, -math.inf), *own])]
        for node, own in evidence.writable.items()
    }
    return together(least), together(most)


def resolution(evidence: Evidence) -> str:
    """Return in words how exactly that time is known; empty for older records, which do not tell it."""
    if not evidence.read_every_s or any(evidence.unread.values()):
        return ""
    every = f"{math.ceil(round(evidence.read_every_s * 10, 6)) / 10:.1f} s"
    if not together(evidence.writable):
        return f"less than {every} cannot be seen"
    least, most = bounds(evidence)
    return f"between {least:.1f} and {most:.1f} s, as servers were read every {every}"


def unresolved(asked: Expectation, found: float | str, evidence: Evidence) -> str:
    """Return why the readings are too rare for the verdict on an expectation; empty if it is certain."""
    if asked.figure != TWO_WRITABLE or not found or not evidence.read_every_s:
        return ""
    least, most = bounds(evidence)
    return "" if asked.holds(least) == asked.holds(found) == asked.holds(most) else resolution(evidence)
