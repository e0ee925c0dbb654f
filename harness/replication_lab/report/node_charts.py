"""What nodes reported over time, in a drill or in the loads of an experiment: their lag and their states."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from replication_lab.model.record.load_timeline import Stay
from replication_lab.report.chart import STRIP, Point, StateSpan, Strip, merged

# A node that was asked and has not answered for this long is silent.
SILENT_AFTER_S, NO_ANSWER = 2.5, "no answer"
# The height of a picture of states without its rows.
STATES = 74


@dataclass(frozen=True)
class Watched:
    """What the nodes reported of one load, which begins `at` on the axis; times are seconds since its begin.

    `silent_after` are the seconds after which a node is silent, if they are others than SILENT_AFTER_S.
    """

    at: float
    length: float
    stays: Mapping[str, Sequence[Stay]]
    silent_after: Mapping[str, float] = field(default_factory=dict)

    def spans(self, node: str) -> Iterator[StateSpan]:
        """Yield the states of a node; one that is asked in vain for long is silent."""
        stays = self.stays.get(node, ())
        for stay, later in zip_longest(stays, stays[1:]):
            until = later.begin if later else self.length
            known = min(until, stay.end + self.silent_after.get(node, SILENT_AFTER_S))
            # As at the beginning, another state, or none at all.
            tone = "bad" if stay.view.error else "good" if str(stay.view) == str(stays[0].view) else "doubt"
            yield self._on_axis(stay.begin), self._on_axis(known), str(stay.view), tone
            if until > known:
                yield self._on_axis(known), self._on_axis(until), NO_ANSWER, "bad"

    def lags(self, node: str) -> Iterator[Point]:
        """Yield (moment, lag); a point without a lag where the node was silent, so that no line leads across it."""
        stays = self.stays.get(node, ())
        for stay, later in zip_longest(stays, stays[1:]):
            lag = None if stay.view.behind_s is None else float(stay.view.behind_s)
            yield from ((self._on_axis(moment), lag) for moment in dict.fromkeys((stay.begin, stay.end)))
            if later and later.begin - stay.end > SILENT_AFTER_S:
                yield self._on_axis(stay.end + SILENT_AFTER_S), None
        yield self._on_axis(self.length), None

    def _on_axis(self, moment: float) -> float:
        return round(self.at + moment, 3)


def by_node(stays: Sequence[Stay]) -> dict[str, list[Stay]]:
    nodes: dict[str, list[Stay]] = {}
    for stay in stays:
        nodes.setdefault(stay.node, []).append(stay)
    return dict(sorted(nodes.items()))


def nodes(loads: Sequence[Watched]) -> list[str]:
    return sorted({node for load in loads for node in load.stays})


def lags(loads: Sequence[Watched]) -> dict[str, list[Point]]:
    """Return the points of each node that reported a lag; no line leads from one load to the next."""
    behind = [
        node
        for node in nodes(loads)
        if any(stay.view.behind_s is not None for load in loads for stay in load.stays.get(node, ()))
    ]
    return {node: [point for load in loads for point in load.lags(node)] for node in behind}


def states(loads: Sequence[Watched]) -> dict[str, Any]:
    """Return the parts of a chart of the states; empty if no node was asked."""
    strips = [Strip(node, merged(span for load in loads for span in load.spans(node))) for node in nodes(loads)]
    height = STATES + STRIP * len(strips)
    return {"y": "", "lines": [], "bands": (), "strips": strips, "height": height} if strips else {}
