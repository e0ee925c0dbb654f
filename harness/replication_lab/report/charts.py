"""The charts of an experiment: as data, from its summary and the raw samples of its record."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from replication_lab.model.drill.timeline import quantile
from replication_lab.model.experiment.curves import CurveLine, Curves, CurvesPanel
from replication_lab.model.record.measurement import Ordered
from replication_lab.model.record.record import Record
from replication_lab.report.chart import LOOKS, Band, Chart, Line
from replication_lab.report.rows import CaseRow, ExperimentSummary, FigureRow

# One round has nothing to be compared with.
FEWEST_ROUNDS = 2
# Enough for a smooth curve; ten thousand commits drawn one by one would be megabytes.
CURVE_POINTS = 60
PREDICTED = 5
SHARES = [round(number / CURVE_POINTS, 4) for number in range(CURVE_POINTS)] + [0.99, 0.999, 1.0]


def of_engine(engine: str, summary: ExperimentSummary, record: Record) -> list[Chart]:
    """Return the charts of an engine that have data."""
    return [
        *(chart for asked in summary.curves for chart in curves(engine, asked, summary)),
        *latency(engine, summary, record),
        *lags(engine, summary, record),
        *over_time(engine, record),
    ]


# --- lines that the experiment defines --------------------------------------------------------------------------------


def curves(engine: str, asked: Curves, summary: ExperimentSummary) -> Iterator[Chart]:
    """Yield a chart for each panel of lines that the experiment defines, with 95 % intervals; both axes are log."""
    known = {case.name: case.figures for case in summary.cases if case.engine == engine}
    looks = list(dict.fromkeys(line.label for panel in asked.panels for line in panel.lines))
    for number, panel in enumerate(asked.panels, 1):
        lines = [line for each in panel.lines if (line := _curve(each, asked.figure, known, looks))]
        if not lines:
            continue
        unit = next((row.unit for each in panel.lines for _, row in _figures(each, asked.figure, known)), "")
        yield Chart(
            name=f"{engine}-curves-{number}",
            told=f"{asked.title}: {panel.title}",
            about="Lines with 95 % intervals; both axes are logarithmic. The table of figures has each value.",
            x=asked.x,
            y=f"{asked.figure}{f' ({unit})' if unit else ''}",
            lines=[*lines, *_law(panel, asked.figure, known)],
            log_x=True,
            log_y=True,
            x_ticks=sorted({point.x for each in panel.lines for point in each.points}),
        )


def _figures(line: CurveLine, name: str, known: dict[str, dict[str, FigureRow]]) -> list[tuple[float, FigureRow]]:
    """Return (place on the x axis, figure) of the points that were measured."""
    found = [(point.x, known.get(point.case, {}).get(name)) for point in line.points]
    return [(x, row) for x, row in found if row and row.value]


def _curve(line: CurveLine, name: str, known: dict[str, dict[str, FigureRow]], looks: list[str]) -> Line | None:
    points = _figures(line, name, known)
    if not points:
        return None
    ends = [_ends(row) for _, row in points]
    return Line(line.label, [(x, row.value) for x, row in points], looks.index(line.label) % PREDICTED, ends=ends)


def _ends(row: FigureRow) -> tuple[float, float] | None:
    """Return an interval; one that would leave a log scale ends just above zero."""
    if row.value is None or row.low is None or row.high is None:
        return None
    return max(row.low, row.value / 100), row.high


def _law(panel: CurvesPanel, name: str, known: dict[str, dict[str, FigureRow]]) -> Iterator[Line]:
    predicted: dict[float, list[float]] = {}
    for line in panel.lines:
        for x, row in _figures(line, name, known):
            predicted.setdefault(x, []).extend([row.predicted] if row.predicted else [])
    points = [(x, math.fsum(values) / len(values)) for x, values in sorted(predicted.items()) if values]
    if points:
        yield Line("predicted", points, PREDICTED, bare=True)


# --- latency ----------------------------------------------------------------------------------------------------------


def latency(engine: str, summary: ExperimentSummary, record: Record) -> Iterator[Chart]:
    """Yield charts of the share of commits answered within a time, of all quiet rounds together; six cases each."""
    said = words(summary.cases)
    found = [(case, values) for case in cases(engine, summary) if (values := latencies(record, case))]
    parts = [found[first : first + LOOKS] for first in range(0, len(found), LOOKS)]
    for number, part in enumerate(parts, 1):
        of = f", part {number} of {len(parts)}" if len(parts) > 1 else ""
        yield Chart(
            name=f"{engine}-latency-{number}",
            told=f"Share of {summary.counts}s answered within a time{of}",
            about="A line for each case; the further left it is, the shorter the latencies are.",
            x=f"{summary.counts} latency, ms (log scale)",
            y=f"share of {summary.counts}s",
            lines=[
                Line(said[engine, case.name], _shares(values), look, bare=True)
                for look, (case, values) in enumerate(part)
            ],
            log_x=True,
        )


def cases(engine: str, summary: ExperimentSummary) -> list[CaseRow]:
    """Return the cases of an engine that no curve shows: forty points are a curve and not forty rows."""
    drawn = {name for asked in summary.curves for name in asked.cases}
    return [case for case in summary.cases if case.engine == engine and case.name not in drawn]


def words(cases: Sequence[CaseRow]) -> dict[tuple[str, str], str]:
    """Return what each case is, by engine and name, in its experiment's words; with its name if several share them."""
    times = Counter((case.engine, case.about) for case in cases)
    return {
        (case.engine, case.name): (case.about if times[case.engine, case.about] == 1 else f"{case.about} ({case.name})")
        if case.about
        else case.name
        for case in cases
    }


def latencies(record: Record, case: CaseRow) -> Ordered:
    """Return the latencies of all quiet rounds of a case, in order of size."""
    quiet = record.quiet(case.engine, case.name).values()
    return Ordered([ms for ms in m.samples.get("latency_ms", []) if ms > 0] for m in quiet)


def _shares(ordered: Sequence[float]) -> list[tuple[float, float | None]]:
    return [(quantile(ordered, share), share) for share in SHARES]


# --- over time --------------------------------------------------------------------------------------------------------


def lags(engine: str, summary: ExperimentSummary, record: Record) -> Iterator[Chart]:
    """Yield a chart of the rows behind the source for each case with such samples: its last quiet round."""
    for case in summary.cases:
        rounds = record.quiet(case.engine, case.name) if case.engine == engine else {}
        samples = rounds[max(rounds)].samples if rounds else {}
        if "at_s" not in samples:
            continue
        times, begins = samples["at_s"], samples.get("load_from_s", [])
        names = sorted(name for name in samples if name.startswith("lag_"))
        yield Chart(
            name=f"{engine}-lag-{case.name}",
            told=f"Rows behind the source: {case.about or case.name}, round {max(rounds)}",
            about="A line for each replica"
            + "".join(f"; the steady load began after {begin:.1f} s" for begin in begins)
            + ".",
            x="seconds since the disks became slow",
            y="rows behind the source",
            lines=[
                Line(name.removeprefix("lag_"), [*zip(times, samples[name], strict=True)], look, bare=True)
                for look, name in enumerate(names)
            ],
            bands=[Band(begin, times[-1], "steady load", "load") for begin in begins],
        )


def over_time(engine: str, record: Record) -> Iterator[Chart]:
    """Yield the run over time: each measurement's throughput as a multiple of its case's mean.

    A drift of the machine shows as a slope, a disturbed moment as an outlier.
    """
    taken = [m for m in record.measurements if m.engine == engine and m.figures.get("throughput") and m.at]
    if len({m.round for m in taken}) < FEWEST_ROUNDS:
        return
    means = {m.case: _mean(record, engine, m.case) for m in taken}
    began = datetime.fromisoformat(taken[0].at)
    points = [
        (
            m,
            round((datetime.fromisoformat(m.at) - began).total_seconds() / 60, 3),
            (m.figures["throughput"] or 0) / (means[m.case] or 1),
        )
        for m in taken
        if means[m.case]
    ]
    lines = [
        Line(label, [(x, y) for m, x, y in points if m.counts is counts], look, scattered=True)
        for label, counts, look in (("quiet, counts", True, 0), ("noisy, does not count", False, 5))
    ]
    yield Chart(
        name=f"{engine}-run",
        told="The run over time",
        about="A dot for each measurement: its throughput as a multiple of the mean of its case.",
        x="minutes since the first measurement",
        y="throughput / mean",
        lines=[line for line in lines if line.points],
    )


def _mean(record: Record, engine: str, case: str) -> float | None:
    values = [value for value in record.series(engine, case, "throughput").values() if math.isfinite(value)]
    return math.fsum(values) / len(values) if values else None
