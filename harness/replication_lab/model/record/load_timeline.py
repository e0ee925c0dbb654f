"""A measured load second by second: what was answered in each, how fast, and what the nodes reported.

It is recorded beside the figures for the eye of a reader; no verdict comes from it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from replication_lab.model.drill.evidence import Looked, View
from replication_lab.model.drill.timeline import percentiles
from replication_lab.model.question.load import Moments

# A view that is older than this says nothing about the begin of a load.
OLDEST_S = 2.5
# The clocks of a load and of the program that started it are the same if they agree this well.
SAME_CLOCK_S = 0.05


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """The answers of one second: commits, lost attempts, and percentiles of the commits' latencies in ms."""

    commits: int
    lost: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class Stay(msgspec.Struct, frozen=True):
    """A node's state between two moments: those at which it first and last reported the same."""

    node: str
    begin: float
    end: float
    view: View


class LoadTimeline(msgspec.Struct, frozen=True):
    """A load by seconds since its first statement; it took `load` of them, and the last one may be shorter.

    `states` are those of the nodes until the time `whole`, which is later if the replicas were waited for. They are
    empty in an experiment that does not ask for them.
    """

    load: float
    seconds: list[Answered]
    whole: float = 0.0
    states: list[Stay] = []

    @property
    def length(self) -> float:
        return max(self.load, self.whole)


def timeline_of(moments: Moments, looked: Sequence[Looked], ran: tuple[float, float], after: float) -> LoadTimeline:
    """Return the timeline of a load that was started and had ended at the times `ran`, in the clock of `looked`.

    `after` is the time in seconds that was waited for after its last commit.
    """
    load = max(moments.end - moments.begin, 1e-3)
    # An engine on another machine has a clock of its own.
    is_same_clock = ran[0] - SAME_CLOCK_S <= moments.begin and moments.end <= ran[1] + SAME_CLOCK_S
    began = moments.begin if is_same_clock else ran[0]
    whole = load + after
    return LoadTimeline(
        load=round(load, 3),
        seconds=list(_seconds(moments, load)),
        whole=round(whole, 3),
        states=list(_stays(looked, began, whole)),
    )


def _seconds(moments: Moments, load: float) -> Iterator[Answered]:
    count = max(math.ceil(load), 1)
    commits: list[list[float]] = [[] for _ in range(count)]
    lost = [0] * count

    def second(at: float) -> int:
        return min(max(int(at - moments.begin), 0), count - 1)

    for at, took in moments.commits:
        commits[second(at)].append(took)
    for at in moments.lost:
        lost[second(at)] += 1
    for taken, failed in zip(commits, lost, strict=True):
        yield Answered(len(taken), failed, *percentiles(taken))


def _stays(looked: Sequence[Looked], began: float, whole: float) -> Iterator[Stay]:
    """Yield each node's states within the load, in order; views that repeat the one before are one state."""
    nodes: dict[str, list[Looked]] = {}
    for one in looked:
        if -OLDEST_S <= one.at - began <= whole + SAME_CLOCK_S:
            # Queues are of another length at each reading, and are figures.
            state = msgspec.structs.replace(one.view, queues={})
            nodes.setdefault(one.node, []).append(msgspec.structs.replace(one, view=state))
    for _, views in sorted(nodes.items()):
        yield from _of_a_node(views, began, whole)


def _of_a_node(views: Sequence[Looked], began: float, whole: float) -> Iterator[Stay]:
    def within(at: float) -> float:
        return round(min(max(at - began, 0.0), whole), 3)

    first = last = views[0]
    for one in views[1:]:
        if one.view != last.view or one.at - last.at > OLDEST_S:
            yield Stay(first.node, within(first.at), within(last.at), first.view)
            first = one
        last = one
    yield Stay(first.node, within(first.at), within(last.at), first.view)


def widened(seconds: Sequence[Answered], width: int) -> list[Answered]:
    """Return intervals of `width` seconds: sums, the middle one of the medians, the highest other percentiles."""
    return [_together(seconds[at : at + width]) for at in range(0, len(seconds), width)]


def _together(part: Sequence[Answered]) -> Answered:
    if len(part) == 1:
        return part[0]
    known = sorted(each.p50_ms for each in part if each.p50_ms is not None)
    return Answered(
        sum(each.commits for each in part),
        sum(each.lost for each in part),
        known[len(known) // 2] if known else None,
        max((each.p95_ms for each in part if each.p95_ms is not None), default=None),
        max((each.p99_ms for each in part if each.p99_ms is not None), default=None),
    )


def waited_after(figures: Mapping[str, float | None]) -> float:
    """Return the seconds for which replicas were waited for after a load, by its figures."""
    return figures.get("lag_s") or 0.0
