"""Telling what a record comes to: a summary, and its renderings for a terminal, a browser and a test system.

A report sees nothing but the experiment and the record. The renderings see the summary; only the charts also read
the raw samples.
"""

from replication_lab.report.rows import Summary
from replication_lab.report.summary import summarise

__all__ = ["Summary", "summarise", "write"]


def write(folder, summary: Summary, record) -> list[str]:
    """Write summary.json, junit.xml and report.html into `folder`, each whole or not at all; returns their names.

    What costs nothing to write goes first, so that a failing chart loses no verdict.
    """
    from replication_lab.report import files

    return files.write(folder, summary, record)
