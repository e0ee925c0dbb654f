"""The report of a record: a summary, and its renderings for a terminal, a browser and a test system.

A report uses nothing but the record, and the experiment or the drills' results. The renderings use the summary; only
the charts also read the raw samples.
"""

from replication_lab.report.rows import DrillsSummary, ExperimentSummary, Summary
from replication_lab.report.summary import summarise, summarise_drills

__all__ = ["DrillsSummary", "ExperimentSummary", "Summary", "summarise", "summarise_drills", "write", "write_live"]


def write_live(folder, opening, record) -> list[str]:
    """Write report.html of a record of the live page; return its name. There is no verdict to write."""
    from replication_lab.report import files, live_page

    files.replace(folder / "report.html", live_page.render(opening, record).encode())
    return ["report.html"]


def write(folder, summary: Summary, record, timelines=None) -> list[str]:
    """Write summary.json, junit.xml and report.html into `folder`, each atomically; return their names.

    The page comes last, so that a failing chart loses no verdict. `timelines` are those of the run's drills.
    """
    from replication_lab.report import files

    return files.write(folder, summary, record, timelines)
