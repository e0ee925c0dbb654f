"""The timeline of a drill as charts: answers, latencies, errors, and what nodes reported, with the faults as bands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any

from replication_lab.model.core.groups import grouped
from replication_lab.model.drill.timeline import AFTER, INJECTION, Phase, Timeline
from replication_lab.model.record.load_timeline import Stay
from replication_lab.report import strips
from replication_lab.report.chart import HIGH, STRIP, Axis, Band, Chart, Line, Point, StateSpan, Strip, merged
from replication_lab.report.rows import DrillRow

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
    return dict(sorted(grouped((stay.node, stay) for stay in stays).items()))


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


X = "seconds since the clients began"
# A machine is asked less often than a server: its usual pause between two answers, so many times, is no silence.
USUAL_PAUSES = 1.5


def charts(name: str, drill: DrillRow, found: Timeline) -> list[Chart]:
    """Return the charts of a drill, all on the same axis; `name` is unique on the page."""
    axis = Axis(name, X, found.load, bands(drill), name, f"{drill.name}: ")
    return [
        *_commits(axis, found),
        *_latency(axis, found),
        *_errors(axis, found),
        *_lag(axis, found),
        *_states(axis, found),
    ]


def bands(drill: DrillRow) -> list[Band]:
    """Return the span of each fault, and those until all nodes were healthy again."""
    found = []
    for acted in drill.acted:
        for spec in acted.step.fault_specs:
            label = f"{spec.fault} on {', '.join(spec.targets)}"
            found.append(Band(round(acted.broke + spec.at, 3), acted.healed, label))
        found.append(Band(acted.healed, acted.whole, "recovery", "recovery"))
    return found


def _commits(axis: Axis, found: Timeline) -> Iterator[Chart]:
    several = len(found.by_node) > 1
    yield axis.chart(
        "commits",
        "acknowledged writes a second",
        "writes/s",
        [
            Line(node, _rates(found, counts), look, steps=True)
            for look, (node, counts) in enumerate(found.by_node.items())
        ],
        about=f"Counted by the time of the answer, in intervals of {found.width:g} s"
        + (", a line for each node that clients wrote to." if several else "."),
        height=HIGH,
    )


def _rates(found: Timeline, counts: Sequence[int]) -> list[tuple[float, float | None]]:
    """Return a rate for each interval; the last one has none if it is short, since its rate would be chance."""
    return [
        (
            found.begin(number),
            round(count / found.seconds(number), 3) if found.seconds(number) >= found.width / 2 else None,
        )
        for number, count in enumerate(counts)
    ]


def _latency(axis: Axis, found: Timeline) -> Iterator[Chart]:
    middles = [found.begin(number) + found.width / 2 for number in range(len(found.tallies))]

    def line(label: str, look: int, field: str) -> Line:
        return Line(
            label, [*zip(middles, (getattr(each, field) for each in found.tallies), strict=True)], look, bare=True
        )

    about = "Percentiles of each interval; a gap is an interval without an acknowledged write."
    yield from axis.latency("latency of acknowledged writes", line, about)


def _errors(axis: Axis, found: Timeline) -> Iterator[Chart]:
    kinds = {
        "failed": [tally.failed for tally in found.tallies],
        "unknown: the answer was lost": [tally.unknown for tally in found.tallies],
    }
    lines = [
        Line(label, _rates(found, counts), look, steps=True)
        for look, (label, counts) in enumerate(kinds.items(), 1)
        if any(counts)
    ]
    if lines:
        about = "Failed statements were refused; of unknown ones the client got no answer."
        yield axis.chart("errors", "statements without success", "statements/s", lines, about=about)


def _watched(found: Timeline) -> Watched:
    stays = by_node([Stay(one.node, one.at, one.at, one.view) for one in found.looked])
    return Watched(0.0, found.load[1], stays, {node: _silent_after(looked) for node, looked in stays.items()})


def _lag(axis: Axis, found: Timeline) -> Iterator[Chart]:
    if behind := lags([_watched(found)]):
        lines = [Line(node, points, look, bare=True) for look, (node, points) in enumerate(behind.items())]
        about = "As each replica reports it, in whole seconds; a gap means that the replica reported no lag."
        yield axis.chart("lag", "lag of the replicas", "s behind", lines, about=about)


def _states(axis: Axis, found: Timeline) -> Iterator[Chart]:
    if parts := states([_watched(found)]):
        about = "As each node reports it, about once a second."
        yield axis.chart("states", "states of the nodes", about=about, group="", **parts)


def _silent_after(stays: Sequence[Stay]) -> float:
    """Return the seconds after which a node that does not answer again is silent."""
    pauses = [later.begin - stay.end for stay, later in pairwise(stays)]
    return max(SILENT_AFTER_S, USUAL_PAUSES * median(pauses)) if pauses else SILENT_AFTER_S


# --- the overview -----------------------------------------------------------------------------------------------------


def spark(drill: DrillRow, found: Timeline) -> str:
    """Return the small picture of a drill: its acknowledged writes over time, and the faults."""
    begin, end = found.load
    whole = (end - begin) or 1.0
    spans = [
        ((one - begin) / whole, (other - begin) / whole)
        for one, other in ((each.broke, each.healed) for each in drill.acted)
    ]
    rates = [rate for _, rate in _rates(found, [tally.acknowledged for tally in found.tallies])]
    most = max(filter(None, rates), default=0)
    told = f"{drill.name}: acknowledged writes a second, at most {most:g}; the fault is shaded"
    return strips.spark(rates, spans, told)


# --- phases -----------------------------------------------------------------------------------------------------------


def shown(phases: Sequence[Phase]) -> list[Phase]:
    """Return the phases that a table shows: all but an injection in which nothing was sent, and an empty end."""
    return [each for each in phases if each.name not in (INJECTION, AFTER) or each.tally.statements]
