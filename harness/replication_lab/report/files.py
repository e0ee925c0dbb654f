"""The files of a report."""

from collections.abc import Iterator, Mapping

from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.record.record import Record
from replication_lab.report import junit, summary
from replication_lab.report.rows import Summary


def of_run(
    result: Summary, record: Record, timelines: Mapping[str, Timeline] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file. The page comes last, so that a failing chart loses no verdict.

    `timelines` are those of the run's drills, by the name of the ledger.
    """
    yield "summary.json", summary.encode(result)
    yield "junit.xml", junit.render(result)
    from replication_lab.report import page

    yield "report.html", page.render(result, record, timelines).encode()
