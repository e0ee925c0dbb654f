"""The timeline of a drill as charts: answers, latencies, errors, lag and states by second, with the faults as bands."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from replication_lab.model.drill.timeline import AFTER, INJECTION, Phase, Tally, Timeline
from replication_lab.model.record.load_timeline import Stay
from replication_lab.report import strips
from replication_lab.report.chart import HIGH, PERCENTILES, Axis, Band, Chart, Line, is_wide
from replication_lab.report.node_charts import SILENT_AFTER_S, Watched, by_node, lags, states
from replication_lab.report.rows import DrillRow

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
    known = [ms for tally in found.tallies for ms in (tally.p50_ms, tally.p99_ms) if ms]
    if not known:
        return
    log = is_wide(known)
    yield axis.chart(
        "latency",
        "latency of acknowledged writes",
        f"ms{', log scale' if log else ''}",
        [
            Line(label, [_percentile(found, number, field) for number in range(len(found.tallies))], look, bare=True)
            for look, (label, field) in enumerate(PERCENTILES)
        ],
        about="Percentiles of each interval; a gap is an interval without an acknowledged write.",
        log_y=log,
    )


def _percentile(found: Timeline, number: int, field: str) -> tuple[float, float | None]:
    return found.begin(number) + found.width / 2, getattr(found.tallies[number], field)


def _errors(axis: Axis, found: Timeline) -> Iterator[Chart]:
    kinds: list[tuple[str, Callable[[Tally], int]]] = [
        ("failed", lambda tally: tally.failed),
        ("unknown: the answer was lost", lambda tally: tally.unknown),
    ]
    lines = [
        Line(label, _rates(found, [of(tally) for tally in found.tallies]), look, steps=True)
        for look, (label, of) in enumerate(kinds, 1)
        if any(map(of, found.tallies))
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
    return [each for each in phases if each.name not in (INJECTION, AFTER) or _has_statements(each.tally)]


def _has_statements(tally: Tally) -> bool:
    return bool(tally.acknowledged or tally.failed or tally.unknown)
