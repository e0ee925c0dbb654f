"""The formats of `lab report --format`, and the files of a report."""

from collections.abc import Callable, Iterator, Mapping

from replication_lab.model.comparing.digest import Digest
from replication_lab.model.comparing.digest import encode as encode_digest
from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.record.record import Record
from replication_lab.report.rows import DrillsSummary, Summary
from replication_lab.report.summary import encode

FORMATS = ("markdown", "github", "junit", "csv", "benchmark", "baseline", "html")
Timelines = Mapping[str, Timeline]


def rendered(
    form: str,
    run: str,
    summary: Summary,
    record: Record,
    digest: Callable[[], Digest],
    *,
    timelines: Timelines | None = None,
) -> str:
    """Return a run's report in a format; `digest` makes what is compared of the run, and refuses drills.

    `timelines` are those of the run's drills, by the name of the ledger.
    """
    # Each module is imported when it is used: the charts of a page take long.
    from replication_lab.report import annotations, figures, junit, markdown

    makers: dict[str, Callable[[], str]] = {
        "markdown": lambda: markdown.text(summary, run),
        "github": lambda: annotations.text(summary),
        "junit": lambda: junit.render(summary).decode(),
        "csv": lambda: (
            figures.csv_of_drills(run, summary)
            if isinstance(summary, DrillsSummary)
            else figures.csv_of_experiment(digest())
        ),
        "benchmark": lambda: figures.benchmark(digest()),
        "baseline": lambda: encode_digest(digest()).decode(),
        "html": lambda: _page(summary, record, timelines),
    }
    return makers[form]()


def files(summary: Summary, record: Record, timelines: Timelines) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file. The page comes last, so that a failing chart loses no verdict."""
    from replication_lab.report import junit

    yield "summary.json", encode(summary)
    yield "junit.xml", junit.render(summary)
    yield "report.html", _page(summary, record, timelines).encode()


def _page(summary: Summary, record: Record, timelines: Timelines | None) -> str:
    from replication_lab.report import page

    return page.render(summary, record, timelines)
