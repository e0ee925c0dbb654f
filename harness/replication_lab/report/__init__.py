"""The report of a record: a summary, and its renderings for a terminal, a browser and a test system.

A report uses nothing but the record, and the experiment or the drills' results. The renderings use the summary; only
the charts also read the raw samples.
"""

from replication_lab.report.rows import DrillsSummary, ExperimentSummary, Summary
from replication_lab.report.summary import summarise, summarise_drills

__all__ = ["DrillsSummary", "ExperimentSummary", "Summary", "summarise", "summarise_drills"]
