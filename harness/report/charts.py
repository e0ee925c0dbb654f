"""Charts as SVG text, to be set into the page: small, offline, the same bytes for the same record."""

import io
import re

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from harness.record import Record
from harness.report.summary import CaseRow, FaultRow, FigureRow, Summary

CURVE_POINTS = 150  # enough for a smooth curve; ten thousand commits drawn one by one would be megabytes
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "replication-lab",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def throughput(engine: str, summary: Summary) -> str | None:
    """Commits a second by case with 95 % intervals, and marks for what was published and predicted; log scale."""
    rows = [
        (case.name, case.figures["throughput"])
        for case in summary.cases
        if case.engine == engine and "throughput" in case.figures
    ]
    return _drawn(0.36 * len(rows) + 1.2, lambda axes: _throughput(axes, rows)) if rows else None


def latency(engine: str, record: Record, cases: list[CaseRow]) -> str | None:
    """Share of commits answered within a time, by case: all quiet rounds together; log scale."""
    samples = {case.name: _pooled(record, engine, case.name, "latency_ms") for case in cases if case.engine == engine}
    samples = {name: values for name, values in samples.items() if values}
    colours = _colours(cases, engine)
    return _drawn(4.2, lambda axes: _latency(axes, samples, colours)) if samples else None


def round_trips(engine: str, summary: Summary) -> str | None:
    """The links' RTT during each round (min, median, max) against the RTT asked for."""
    faults = [f for f in summary.faults if f.engine == engine and f.during and f.unit == "ms"]
    colours = _colours(summary.cases, engine)
    return _drawn(3.6, lambda axes: _round_trips(axes, faults, colours)) if faults else None


def _drawn(height: float, draw) -> str:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, height), layout="constrained")
        draw(figure.subplots())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=NO_METADATA, transparent=True)
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)


def _throughput(axes, rows: list[tuple[str, FigureRow]]) -> None:
    places = range(len(rows))
    known = [row if row.value else FigureRow(value=np.nan) for _, row in rows]
    axes.errorbar(
        [row.value for row in known],
        places,
        xerr=_distances(known),
        fmt="o",
        color="#1f5fa8",
        capsize=3,
        label="measured, 95 % interval",
    )
    for key, mark, colour in (("predicted", "|", "#c0392b"), ("published", "D", "#8a8a8a")):
        marks = [(getattr(row, key), place) for place, (_, row) in enumerate(rows) if getattr(row, key)]
        if marks:
            axes.scatter(
                *zip(*marks, strict=True),
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
    axes.set_xlabel("commits a second (log scale)")
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _distances(rows: list[FigureRow]) -> list[list[float]]:
    """Error bars as distances below and above; a bar that would leave a log scale ends just above zero."""
    below = [row.value - max(row.low, row.value / 100) if row.low is not None else 0 for row in rows]
    above = [row.high - row.value if row.high is not None else 0 for row in rows]
    return [below, above]


def _colours(cases: list[CaseRow], engine: str) -> dict:
    """One colour per case, the same in every chart of an engine."""
    names = [case.name for case in cases if case.engine == engine]
    return dict(zip(names, matplotlib.colormaps["turbo"](np.linspace(0.05, 0.95, len(names))), strict=True))


def _latency(axes, samples: dict[str, list[float]], colours: dict) -> None:
    shares = np.linspace(0, 1, CURVE_POINTS)
    for name, values in samples.items():
        label = f"{name} (n={len(values)})"
        axes.plot(np.quantile(values, shares), shares, color=colours[name], label=label, linewidth=1.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("commit latency, ms (log scale)")
    axes.set_ylabel("share of commits answered")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _round_trips(axes, faults: list[FaultRow], colours: dict) -> None:
    names = [name for name in colours if any(fault.case == name for fault in faults)]
    for place, name in enumerate(names):
        mine = [fault for fault in faults if fault.case == name]
        middle = [fault.during.p50 for fault in mine]
        spread = [[f.during.p50 - f.during.min for f in mine], [f.during.max - f.during.p50 for f in mine]]
        shift = 0.5 * (place / max(len(names) - 1, 1) - 0.5)
        axes.errorbar(
            [f.round + shift for f in mine],
            middle,
            yerr=spread,
            fmt="o",
            markersize=3,
            color=colours[name],
            linewidth=0.9,
            label=name,
        )
    for asked in sorted({fault.asked for fault in faults if fault.asked is not None}):
        axes.axhline(asked, color="#c0392b", linewidth=0.9, linestyle="--", label=f"asked, {asked:g} ms")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("round")
    axes.set_ylabel("RTT of the link, ms (min, median, max)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _pooled(record: Record, engine: str, case: str, name: str) -> list[float]:
    return [value for m in record.quiet(engine, case).values() for value in m.samples.get(name, [])]
