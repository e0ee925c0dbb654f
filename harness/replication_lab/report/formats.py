"""The formats of `lab report --format`. Each module is imported when it is used: the charts of a page take long."""

from collections.abc import Callable, Mapping

from replication_lab.model.comparing.digest import Digest
from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.record.record import Record
from replication_lab.report.rows import DrillsSummary, Summary

FORMATS = ("markdown", "github", "junit", "csv", "benchmark", "html")


def rendered(
    form: str,
    run: str,
    summary: Summary,
    record: Record,
    digest: Callable[[], Digest],
    *,
    timelines: Mapping[str, Timeline] | None = None,
) -> str:
    """Return a run's report in a format; `digest` makes what is compared of the run, and refuses drills.

    `timelines` are those of the run's drills, by the name of the ledger.
    """
    makers: dict[str, Callable[[], str]] = {
        "markdown": lambda: _markdown(summary, run),
        "github": lambda: _github(summary),
        "junit": lambda: _junit(summary),
        "csv": lambda: _csv(summary, run, digest),
        "benchmark": lambda: _benchmark(digest()),
        "html": lambda: _html(summary, record, timelines),
    }
    return makers[form]()


def _markdown(summary: Summary, run: str) -> str:
    from replication_lab.report import markdown

    return markdown.text(summary, run)


def _github(summary: Summary) -> str:
    from replication_lab.report import annotations

    return annotations.text(summary)


def _junit(summary: Summary) -> str:
    from replication_lab.report import junit

    return junit.render(summary).decode()


def _csv(summary: Summary, run: str, digest: Callable[[], Digest]) -> str:
    from replication_lab.report import figures

    if isinstance(summary, DrillsSummary):
        return figures.csv_of_drills(run, summary)
    return figures.csv_of_experiment(digest())


def _benchmark(digest: Digest) -> str:
    from replication_lab.report import figures

    return figures.benchmark(digest)


def _html(summary: Summary, record: Record, timelines: Mapping[str, Timeline] | None) -> str:
    from replication_lab.report import page

    return page.render(summary, record, timelines)
