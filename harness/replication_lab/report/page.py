"""report.html: one file that needs nothing else, verdict first."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from replication_lab.model.record import Record
from replication_lab.report import charts, wording
from replication_lab.report.rows import Summary


def render(summary: Summary, record: Record) -> str:
    pages = Environment(
        loader=PackageLoader("replication_lab", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["number"] = wording.number
    drawn = {engine: _charts(engine, summary, record) for engine in summary.engines}
    return pages.get_template("page.html.j2").render(summary=summary, wording=wording, charts=drawn)


def _charts(engine: str, summary: Summary, record: Record) -> list[tuple[str, str]]:
    """(caption, SVG) of the charts that have something to show."""
    others = [case for case in summary.cases if case.name not in charts.on_curves(summary)]
    drawn = (
        *((asked.title, charts.curves(engine, asked, summary)) for asked in summary.curves),
        ("Throughput", charts.throughput(engine, summary)),
        ("Commit latency", charts.latency(engine, record, others)),
        ("Rows behind", charts.lags(engine, record)),
        ("RTT during the load", charts.round_trips(engine, summary)),
    )
    return [(caption, svg) for caption, svg in drawn if svg]
