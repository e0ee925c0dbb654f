"""report.html of what a viewer recorded of a lab: the charts of the live page, what was clicked, and the ledger."""

from collections.abc import Iterator, Mapping, Sequence

from replication_lab.model.live.view import Acted, Level, Live, Second, Span, ViewedSample
from replication_lab.model.record.record import Record
from replication_lab.report import page
from replication_lab.report.chart import STRIP, Axis, Band, Chart, Line, StateSpan, Strip, merged

X = "seconds since lab live started"
TONES = {Level.GOOD: "good", Level.WARN: "note", Level.BAD: "bad", Level.UNKNOWN: "doubt"}
HIGH, STATES = 220, 74


def render(opening: Live, record: Record) -> str:
    """Return the page of a record; it has no verdict."""
    seconds = [event for event in record.events if isinstance(event, Second)]
    spans = [span for event in record.events if isinstance(event, Acted) for span in event.spans]
    return page.rendered(
        "page_of_live.html.j2",
        opening=opening,
        record=record,
        charts=list(charts([each.sample for each in seconds], spans)) if seconds else [],
        spans=spans,
        said=list(_said(seconds)),
        ledger=seconds[-1].ledger if seconds else None,
        seconds=len(seconds),
    )


def charts(samples: Sequence[ViewedSample], spans: Sequence[Span]) -> Iterator[Chart]:
    """Yield the charts of the live page that have data, all on the same axis."""
    ends = (samples[0].at, samples[-1].at)
    bands = [Band(span.begin, ends[1] if span.end is None else span.end, span.label) for span in spans]

    axis = Axis("live", X, ends, bands)
    yield _commits(axis, samples)
    yield _states(axis, samples)
    yield from _latencies(axis, samples)
    trips = [(each.at, each.round_trip_ms) for each in samples]
    links = ("links", "Measured round trip of each link", "ms")
    yield from _of_each(axis, links, trips, "A gap means that the link did not answer.")
    behind = [(each.at, each.behind) for each in samples]
    yield from _of_each(axis, ("lag", "Transactions that a replica lacks", "transactions"), behind)
    if any(each.errors_per_s for each in samples):
        lines = [Line("errors", [(each.at, each.errors_per_s) for each in samples], 2, bare=True)]
        yield axis.chart("errors", "Errors that the clients received", "errors/s", lines)


def _commits(axis: Axis, samples: Sequence[ViewedSample]) -> Chart:
    lines = [
        Line("commits", [(each.at, each.commits_per_s) for each in samples], 0, bare=True),
        Line("ceiling: clients / round trip", [(each.at, each.law_per_s) for each in samples], 1, bare=True),
    ]
    about = "The ceiling is the upper bound: clients / measured round trip, or the requested rate if that is lower."
    return axis.chart("commits", "Commits a second, and their ceiling", "commits/s", lines, about=about, height=HIGH)


def _states(axis: Axis, samples: Sequence[ViewedSample]) -> Chart:
    strips = [Strip(band.track, merged(_spans(band.track, samples))) for band in samples[-1].bands]
    height, about = STATES + STRIP * len(strips), "As each node reports it."
    return axis.chart("states", "States of the nodes", "", [], about=about, strips=strips, bands=(), height=height)


def _latencies(axis: Axis, samples: Sequence[ViewedSample]) -> Iterator[Chart]:
    found = [(each.at, each.latency) for each in samples if each.latency]

    def line(label: str, look: int, field: str) -> Line:
        return Line(label, [(at, getattr(latency, field)) for at, latency in found], look, bare=True)

    yield from axis.latency("Commit latency", line, "Percentiles of each second.")


def _of_each(
    axis: Axis, named: tuple[str, str, str], found: Sequence[tuple[float, Mapping[str, float | None]]], about: str = ""
) -> Iterator[Chart]:
    """Yield the chart with a line for each name that a value was measured of."""
    names = dict.fromkeys(name for _, values in found for name in values)
    lines = [
        Line(name, [(at, values.get(name)) for at, values in found], look, bare=True) for look, name in enumerate(names)
    ]
    if lines:
        yield axis.chart(*named, lines, about=about)


def _spans(track: str, samples: Sequence[ViewedSample]) -> Iterator[StateSpan]:
    for before, each in zip((samples[0], *samples), samples, strict=False):
        band = next((band for band in each.bands if band.track == track), None)
        yield before.at, each.at, *((band.state, TONES[band.level]) if band else ("", "doubt"))


def _said(seconds: Sequence[Second]) -> Iterator[tuple[float, str]]:
    """Yield the moments at which the explanation of the state changed in kind, with it."""
    before = ""
    for each in seconds:
        sentence = each.explain[0] if each.explain else ""
        # The seconds in a sentence change all the time.
        kind = "".join(letter for letter in sentence if not letter.isdigit())
        if kind != before and sentence:
            yield each.sample.at, sentence
        before = kind
