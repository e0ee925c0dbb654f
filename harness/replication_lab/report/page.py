"""report.html: one file that needs nothing else, verdict first."""

from functools import cache

from jinja2 import Environment

from replication_lab.model.record import Record
from replication_lab.report import drill_text, drilled, templates, wording
from replication_lab.report.rows import DrillsSummary, ExperimentSummary, Summary


def render(summary: Summary, record: Record) -> str:
    """Return the page of a run of either kind."""
    parts: dict[str, object]
    if isinstance(summary, DrillsSummary):
        name, parts = "page_of_drills.html.j2", {"told": drill_text.paragraph}
    else:
        drawn = {engine: _charts(engine, summary, record) for engine in summary.engines}
        name, parts = "page_of_experiment.html.j2", {"charts": drawn, "drilled": drilled, "told": drill_text.paragraph}
    return _pages().get_template(name).render(summary=summary, wording=wording, **parts)


@cache
def _pages() -> Environment:
    """Return the environment of the templates, which compiles each of them once."""
    pages = templates.environment(autoescape=True)
    pages.filters["number"] = wording.number
    return pages


def _charts(engine: str, summary: ExperimentSummary, record: Record) -> list[tuple[str, str]]:
    """Return (caption, SVG) of the charts that have data."""
    from replication_lab.report import charts

    others = [case for case in summary.cases if case.name not in charts.on_curves(summary)]
    drawn = (
        *((asked.title, charts.curves(engine, asked, summary)) for asked in summary.curves),
        ("Throughput", charts.throughput(engine, summary)),
        ("Commit latency", charts.latency(engine, record, others)),
        ("Rows behind", charts.lags(engine, record)),
        ("RTT during the load", charts.round_trips(engine, summary)),
    )
    return [(caption, svg) for caption, svg in drawn if svg]
