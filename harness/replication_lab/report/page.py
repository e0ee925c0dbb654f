"""report.html: one file that needs nothing else. The answer comes first; without scripts all of it can be read."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment

from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.record.record import Record
from replication_lab.report import (
    answers,
    chart,
    charts,
    drill_text,
    drilled,
    evidence,
    forest,
    round_timelines,
    strips,
    templates,
    timelines,
    wording,
)
from replication_lab.report.chart import Chart
from replication_lab.report.formats import csv_text
from replication_lab.report.round_timelines import Fitted
from replication_lab.report.rows import CaseRow, DrillsSummary, ExperimentSummary, Summary

STYLES = ("theme.css", "chart.css", "report.css", "uplot/uPlot.min.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "report.js")
PERCENTILES = (0.05, 0.5, 0.95, 0.99, 1.0)

# A page of a usual run is opened from a mail or a build server.
MOST_BYTES = 600 << 10

Timelines = Mapping[str, Timeline]


def render(summary: Summary, record: Record, timelines_: Timelines | None = None) -> str:
    """Return the page of a run of either kind; `timelines_` are those of its drills, by the name of the ledger."""
    if isinstance(summary, DrillsSummary):
        name, parts = "page_of_drills.html.j2", {}
    else:
        name, parts = "page_of_experiment.html.j2", _of_experiment(summary, record)

    def whole(rounds: Mapping[str, Fitted | None]) -> str:
        return rendered(name, summary=summary, known=timelines_ or {}, rounds=rounds, **parts)

    page = whole({})
    rounds = _second_by_second(summary, record, MOST_BYTES - len(page.encode()))
    return whole(rounds) if rounds else page


def _second_by_second(summary: Summary, record: Record, room: int) -> dict[str, Fitted | None]:
    if isinstance(summary, DrillsSummary):
        return {}
    known = {engine: found for engine in summary.engines if (found := round_timelines.measured(engine, record))}
    words = charts.words(summary.cases)
    return {
        engine: round_timelines.fitting(found, words, summary.counts, room // len(known))
        for engine, found in known.items()
    }


def rendered(name: str, **parts: object) -> str:
    """Fill in one of the pages' templates."""
    return _pages().get_template(name).render(names=Names(), **parts)


class Names:
    """The ids of a page, each given out once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, *words: object) -> str:
        wanted = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(map(str, words))).strip("-").lower() or "part"
        name, number = wanted, 1
        while name in self._given:
            number += 1
            name = f"{wanted}-{number}"
        self._given.add(name)
        return name


@cache
def _pages() -> Environment:
    """Return the environment of the templates, which compiles each of them once."""
    pages = templates.environment(autoescape=True)
    pages.filters |= {"number": wording.number, "drawn": drawn, "data_uri": data_uri, "tone": wording.tone}
    pages.globals |= {
        "answers": answers,
        "drilled": drilled,
        "evidence": evidence,
        "forest": forest,
        "strips": strips,
        "timelines": timelines,
        "paragraph": drill_text.paragraph,
        "wording": wording,
        "ledger_csv": ledger_csv,
        "styles": "\n".join(map(templates.asset, STYLES)),
        "scripts": [templates.asset(name) for name in SCRIPTS],
        "policy": policy(),
    }
    return pages


def policy() -> str:
    """Return the page's own security policy: only its own scripts run, whatever a record contains."""
    allowed = " ".join(f"'sha256-{_digest(templates.asset(name))}'" for name in SCRIPTS)
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def drawn(one: Chart) -> dict[str, Any]:
    """Return what the template shows of a chart: the picture, and the data for the script."""
    encoded = json.dumps(chart.data(one), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return {"svg": chart.drawn(one), "data": encoded.replace("<", "\\u003c")}


# --- experiments ------------------------------------------------------------------------------------------------------


def _of_experiment(summary: ExperimentSummary, record: Record) -> dict[str, object]:
    return {
        "claims": forest.in_order(summary.claims),
        "charts": {engine: charts.of_engine(engine, summary, record) for engine in summary.engines},
        "pictures": {engine: pictures(engine, summary, record) for engine in summary.engines},
        "states": evidence.states(record),
        "csv": figures_csv(summary),
        "words": charts.words(summary.cases),
    }


def pictures(engine: str, summary: ExperimentSummary, record: Record) -> dict[str, Any]:
    """Return the rows of an engine's table of pictures: throughput and latency of each case; empty without either."""
    rows = [case for case in summary.cases if case.engine == engine]
    rates = [(case, case.figures["throughput"]) for case in rows if "throughput" in case.figures]
    spreads = {case.name: _spread(record, case) for case in rows}
    on = strips.scale([value for _, row in rates for value in strips.figures_of(row)])
    later = strips.scale([value for found in spreads.values() for value in found])
    return {
        "rate_axis": strips.axis(on, "throughput, 1/s, log scale") if on else "",
        "rates": {
            case.name: strips.figure(row, on, f"{case.about or case.name}: {wording.measured(row)} 1/s")
            for case, row in rates
            if on
        },
        "late_axis": strips.axis(later, f"{summary.counts} latency, ms, log scale") if later else "",
        "late": {name: _strip(name, found, later) for name, found in spreads.items() if found and later},
        "percentiles": {name: found[1:4] for name, found in spreads.items() if found},
    }


def _spread(record: Record, case: CaseRow) -> list[float]:
    ordered = charts.latencies(record, case)
    return [charts.quantile(ordered, share) for share in PERCENTILES] if ordered else []


def _strip(name: str, found: Sequence[float], on: strips.Scale) -> str:
    words = ", ".join(
        f"{label} {wording.number(value)}"
        for label, value in zip(("p5", "p50", "p95", "p99", "max"), found, strict=True)
    )
    return strips.spread(found, on, f"{name}: {words} ms")


# --- downloads --------------------------------------------------------------------------------------------------------


def figures_csv(summary: ExperimentSummary) -> str:
    head = ("engine", "case", "about", "figure", "unit", "measured", "low", "high", "published", "predicted")
    return csv_text(
        head,
        (
            (case.engine, case.name, case.about, name, row.unit, row.value, row.low, row.high, row.published,
             row.predicted)
            for case in summary.cases
            for name, row in case.figures.items()
        ),
    )  # fmt: skip


def ledger_csv(found: Timeline) -> str:
    """Return a drill's timeline: a line for each interval."""
    head = ("second", "acknowledged", "failed", "unknown", "p50_ms", "p95_ms", "p99_ms", *found.by_node)
    return csv_text(
        head,
        (
            (found.begin(number), tally.acknowledged, tally.failed, tally.unknown, tally.p50_ms, tally.p95_ms,
             tally.p99_ms, *(counts[number] for counts in found.by_node.values()))
            for number, tally in enumerate(found.tallies)
        ),
    )  # fmt: skip


def data_uri(text: str) -> str:
    """Return a text as an address that holds all of it."""
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
