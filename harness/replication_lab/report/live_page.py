"""report.html of what a viewer recorded of a lab: the charts of the live page, what was clicked, and the ledger."""

from collections.abc import Iterator, Sequence

from replication_lab.model.live import Level, Sample, Span
from replication_lab.model.live_record import Acted, Live, Second
from replication_lab.model.record import Record
from replication_lab.report import page
from replication_lab.report.chart import STRIP, Band, Chart, Line, Strip

X = "seconds since lab live started"
TONES = {Level.GOOD: "good", Level.WARN: "note", Level.BAD: "bad", Level.UNKNOWN: "doubt"}
HIGH, LOW, STATES = 220, 170, 74


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


def charts(samples: Sequence[Sample], spans: Sequence[Span]) -> Iterator[Chart]:
    """Yield the charts of the live page that have data, all on the same axis."""
    ends = (samples[0].at, samples[-1].at)
    bands = [Band(span.begin, ends[1] if span.end is None else span.end, span.label) for span in spans]

    def made(name: str, told: str, y: str, lines: Sequence[Line], **parts: object) -> Chart:
        return Chart(
            name=name,
            told=told,
            x=X,
            y=y,
            lines=lines,
            x_ends=ends,
            **{"height": LOW, "bands": bands, **parts},  # type: ignore[arg-type]
        )

    yield made(
        "live-commits",
        "Commits a second, and the law",
        "commits/s",
        [
            Line("commits", [(each.at, each.commits_per_s) for each in samples], 0, bare=True),
            Line("law: clients / round trip", [(each.at, each.law_per_s) for each in samples], 1, bare=True),
        ],
        about="The law is the upper bound: clients / measured round trip, or the requested rate if that is lower.",
        height=HIGH,
    )
    strips = [_strip(band.track, samples) for band in samples[-1].bands]
    yield made(
        "live-states",
        "States of the nodes",
        "",
        [],
        about="As each node reports it.",
        strips=strips,
        bands=(),
        height=STATES + STRIP * len(strips),
    )
    latencies = [(each.at, each.latency) for each in samples if each.latency]
    if latencies:
        parts = (("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"))
        lines = [
            Line(label, [(at, getattr(found, field)) for at, found in latencies], look, bare=True)
            for look, (label, field) in enumerate(parts)
        ]
        yield made("live-latency", "Commit latency", "ms", lines, about="Percentiles of each second.")
    trips = {link: None for each in samples for link in each.round_trip_ms}
    if trips:
        lines = [
            Line(link, [(each.at, each.round_trip_ms.get(link)) for each in samples], look, bare=True)
            for look, link in enumerate(trips)
        ]
        yield made(
            "live-links",
            "Measured round trip of each link",
            "ms",
            lines,
            about="A gap means that the link did not answer.",
        )
    replicas = {name: None for each in samples for name in each.behind}
    if replicas:
        lines = [
            Line(name, [(each.at, each.behind.get(name)) for each in samples], look, bare=True)
            for look, name in enumerate(replicas)
        ]
        yield made("live-lag", "Transactions that a replica lacks", "transactions", lines)
    if any(each.errors_per_s for each in samples):
        lines = [Line("errors", [(each.at, each.errors_per_s) for each in samples], 2, bare=True)]
        yield made("live-errors", "Errors that the clients received", "errors/s", lines)


def _strip(track: str, samples: Sequence[Sample]) -> Strip:
    """Return the states of a track over time; seconds with the same state are one span."""
    spans: list[tuple[float, float, str, str]] = []
    begin = samples[0].at
    for each in samples:
        band = next((band for band in each.bands if band.track == track), None)
        state, tone = (band.state, TONES[band.level]) if band else ("", "doubt")
        if spans and spans[-1][2] == state:
            spans[-1] = (spans[-1][0], each.at, state, tone)
        else:
            spans.append((begin, each.at, state, tone))
        begin = each.at
    return Strip(track, spans)


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
