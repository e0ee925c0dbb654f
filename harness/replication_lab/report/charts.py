"""Charts as SVG text, to be embedded in the page: small, offline, the same bytes for the same record."""

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from replication_lab.model.record import Measurement, Record
from replication_lab.report.rows import CaseRow, CurvesRow, ExperimentSummary, FaultRow, FigureRow, LineRow, PanelRow

PANELS_ACROSS = 2
CURVE_POINTS = 150  # enough for a smooth curve; ten thousand commits drawn one by one would be megabytes
# A range of this factor or more has no labels between the powers of its scale.
CROWDED = 12
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def curves(engine: str, asked: CurvesRow, summary: ExperimentSummary) -> str | None:
    """Draw a chart that the experiment defines: lines with 95 % intervals, panels side by side, all axes log."""
    known = {case.name: case.figures for case in summary.cases if case.engine == engine}
    panels = [panel for panel in asked.panels if any(_points(line, asked.figure, known) for line in panel.lines)]
    if not panels:
        return None
    across = min(len(panels), PANELS_ACROSS)
    down = -(-len(panels) // across)
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    colours = dict(zip(labels, matplotlib.color_sequences["tab10"], strict=False))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(down, across, squeeze=False, sharex=True).flatten()
        for axes, panel in zip(grid, panels, strict=False):
            _panel(axes, panel, asked, known, colours)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)

    return _figure(3.4 * down + 0.4, draw)


def _points(line: LineRow, name: str, known: dict) -> list[tuple[float, FigureRow]]:
    """Return (place on the x axis, figure) of the points that were measured."""
    figures = [(point.x, known.get(point.case, {}).get(name)) for point in line.points]
    return [(x, row) for x, row in figures if row and row.value]


def _panel(axes: Axes, panel: PanelRow, asked: CurvesRow, known: dict, colours: dict) -> None:
    predicted: dict[float, list[float]] = {}
    for line in panel.lines:
        points = _points(line, asked.figure, known)
        if points:
            places, rows = zip(*points, strict=True)
            values = [row.value for row in rows]
            axes.errorbar(
                places, values, _distances(rows), marker="o", markersize=3.5, capsize=2.5, linewidth=1.3,
                color=colours.get(line.label), label=line.label,
            )  # fmt: skip
        for x, row in points:
            predicted.setdefault(x, []).extend([row.predicted] if row.predicted else [])
    law = [(x, np.mean(values)) for x, values in sorted(predicted.items()) if values]
    if law:
        axes.plot(*zip(*law, strict=True), color="#8a8a8a", linestyle=":", linewidth=1.2, label="predicted")
    axes.set_title(panel.title, fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({point.x for line in panel.lines for point in line.points}))
    axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_formatter("{x:g}")
    # Within one decade there would be only one label; over more than one, minor labels would be too dense.
    axes.yaxis.set_minor_formatter("{x:g}" if high / low < CROWDED else NullFormatter())
    axes.set_xlabel(asked.x)
    unit = next((row.unit for line in panel.lines for _, row in _points(line, asked.figure, known)), "")
    axes.set_ylabel(f"{asked.figure}{f' ({unit})' if unit and not asked.figure.endswith(unit) else ''}, log scale")
    axes.legend(frameon=False, fontsize=7.5)


def on_curves(summary: ExperimentSummary) -> set[str]:
    """Return the cases that the curves show; the other charts omit them."""
    lines = [line for asked in summary.curves for panel in asked.panels for line in panel.lines]
    return {point.case for line in lines for point in line.points}


def throughput(engine: str, summary: ExperimentSummary) -> str | None:
    """Draw commits a second by case with 95 % intervals, and marks for published and predicted values; log scale."""
    drawn = on_curves(summary)
    rows = [
        (case.name, case.figures["throughput"])
        for case in summary.cases
        if case.engine == engine and case.name not in drawn and _is_measured(case, "throughput")
    ]
    return _drawn(0.36 * len(rows) + 1.2, lambda axes: _throughput(axes, rows)) if rows else None


def _is_measured(case: CaseRow, name: str) -> bool:
    """Return whether a figure has a place on a log scale; a case without a quiet round has none."""
    return name in case.figures and bool(case.figures[name].value)


def latency(engine: str, record: Record, cases: list[CaseRow]) -> str | None:
    """Draw the share of commits answered within a time, by case: all quiet rounds together; log scale."""
    samples = {case.name: _pooled(record, engine, case.name, "latency_ms") for case in cases if case.engine == engine}
    samples = {name: values for name, values in samples.items() if values}
    colours = _colours(cases, engine)
    return _drawn(4.2, lambda axes: _latency(axes, samples, colours)) if samples else None


def round_trips(engine: str, summary: ExperimentSummary) -> str | None:
    """Draw the links' RTT during each round (min, median, max) against the requested RTT."""
    drawn = on_curves(summary)
    faults = [f for f in summary.faults if f.engine == engine and f.during and f.unit == "ms" and f.case not in drawn]
    colours = _colours(summary.cases, engine)
    return _drawn(3.6, lambda axes: _round_trips(axes, faults, colours)) if faults else None


def lags(engine: str, record: Record) -> str | None:
    """Draw rows behind the source over time, a line for each replica: the last quiet round of each such case."""
    found = {case: _last_quiet(record, engine, case) for case in dict.fromkeys(m.case for m in record.measurements)}
    read = {case: last for case, last in found.items() if last and "at_s" in last.samples}
    return _figure(3.4 * len(read), lambda figure: _lags(figure, read)) if read else None


def _last_quiet(record: Record, engine: str, case: str) -> Measurement | None:
    rounds = record.quiet(engine, case)
    return rounds[max(rounds)] if rounds else None


def _lags(figure: Figure, read: dict[str, Measurement]) -> None:
    panels = figure.subplots(len(read), squeeze=False).flatten()
    for axes, (case, measured) in zip(panels, read.items(), strict=True):
        at = measured.samples["at_s"]
        names = [name.removeprefix("lag_") for name in measured.samples if name.startswith("lag_")]
        for name, colour in zip(sorted(names), matplotlib.color_sequences["tab10"], strict=False):
            axes.plot(at, measured.samples[f"lag_{name}"], color=colour, label=name, linewidth=1.4)
        for began in measured.samples.get("load_from_s", []):
            axes.axvline(began, color="#8a8a8a", linewidth=0.9, linestyle="--", label="the steady load begins")
        axes.set_title(f"{case}, round {measured.round}", fontsize=9)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds since the disks became slow")
        axes.set_ylabel("rows behind the source")
        axes.legend(frameon=False)


def _drawn(height: float, draw: Callable[[Axes], None]) -> str:
    return _figure(height, lambda figure: draw(figure.subplots()))


def _figure(height: float, draw: Callable[[Figure], None]) -> str:
    with _style():
        figure = Figure(figsize=(8.4, height), layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=NO_METADATA, transparent=True)
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)


def _style() -> AbstractContextManager[None]:
    return matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "replication-lab",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
        }
    )


def _throughput(axes: Axes, rows: list[tuple[str, FigureRow]]) -> None:
    places = range(len(rows))
    axes.errorbar(
        [row.value or np.nan for _, row in rows],
        places,
        xerr=_distances([row for _, row in rows]),
        fmt="o",
        color="#1f5fa8",
        capsize=3,
        label="measured, 95 % interval",
    )
    for key, mark, colour in (("predicted", "|", "#c0392b"), ("published", "D", "#8a8a8a")):
        marks = [(getattr(row, key), place) for place, (_, row) in enumerate(rows) if getattr(row, key)]
        if marks:
            values, beside = zip(*marks, strict=True)
            axes.scatter(
                values,
                beside,
                marker=mark,
                s=160 if mark == "|" else 28,
                color=colour,
                label=key,
                zorder=3,
                facecolors=colour if mark == "|" else "none",
            )
    axes.set_yticks(places, [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("commits/s (log scale)")
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _distances(rows: Sequence[FigureRow]) -> list[list[float]]:
    """Return error bars as distances below and above; a bar that would leave a log scale ends just above zero."""
    below, above = zip(*map(_reach, rows), strict=True)
    return [list(below), list(above)]


def _reach(row: FigureRow) -> tuple[float, float]:
    if row.value is None or row.low is None or row.high is None:
        return 0, 0
    return row.value - max(row.low, row.value / 100), row.high - row.value


def _colours(cases: list[CaseRow], engine: str) -> dict:
    """Return one colour per case, the same in every chart of an engine."""
    names = [case.name for case in cases if case.engine == engine]
    return dict(zip(names, matplotlib.colormaps["turbo"](np.linspace(0.05, 0.95, len(names))), strict=True))


def _latency(axes: Axes, samples: dict[str, list[float]], colours: dict) -> None:
    shares = np.linspace(0, 1, CURVE_POINTS)
    for name, values in samples.items():
        label = f"{name} (n={len(values)})"
        axes.plot(np.quantile(values, shares), shares, color=colours[name], label=label, linewidth=1.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("commit latency, ms (log scale)")
    axes.set_ylabel("share of commits answered")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _round_trips(axes: Axes, faults: list[FaultRow], colours: dict) -> None:
    names = [name for name in colours if any(fault.case == name for fault in faults)]
    for place, name in enumerate(names):
        mine = [(fault.round, fault.during) for fault in faults if fault.case == name and fault.during]
        middle = [during.p50 for _, during in mine]
        spread = [[each.p50 - each.min for _, each in mine], [each.max - each.p50 for _, each in mine]]
        shift = 0.5 * (place / max(len(names) - 1, 1) - 0.5)
        axes.errorbar(
            [number + shift for number, _ in mine],
            middle,
            yerr=spread,
            fmt="o",
            markersize=3,
            color=colours[name],
            linewidth=0.9,
            label=name,
        )
    for asked in sorted({fault.asked for fault in faults if fault.asked is not None}):
        axes.axhline(asked, color="#c0392b", linewidth=0.9, linestyle="--", label=f"requested, {asked:g} ms")
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel("RTT of the link, ms (min, median, max)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _pooled(record: Record, engine: str, case: str, name: str) -> list[float]:
    return [value for m in record.quiet(engine, case).values() for value in m.samples.get(name, [])]
