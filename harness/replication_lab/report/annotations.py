"""A run's verdicts as workflow commands of GitHub Actions: an error for each changed verdict, a warning for UNKNOWN.

The form is documented at https://docs.github.com/actions, "Workflow commands for GitHub Actions".
"""

from collections.abc import Iterator

from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import FigureJudgement
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import wording
from replication_lab.report.rows import DrillsSummary, Summary


def text(summary: Summary) -> str:
    """Return a line for each verdict that a reader must see; empty if everything came out as expected."""
    return "".join(f"{line}\n" for line in _lines(summary))


def _lines(summary: Summary) -> Iterator[str]:
    if why := wording.broke_off(summary):
        yield command("error", "the run did not finish", why)
    yield from (command("warning", "doubt", doubt) for doubt in summary.doubts)
    for where, row in _judged(summary):
        if row.changed or row.verdict is Verdict.UNKNOWN:
            yield command("error" if row.changed else "warning", wording.verdict(row), f"{where}: {_told(row)}")
    if isinstance(summary, DrillsSummary):
        for drill in summary.drills:
            yield from (command("warning", "doubt", f"drill {drill.name}: {doubt}") for doubt in drill.doubts)
    else:
        yield from (command("warning", "not judged", line) for line in wording.not_judged(summary))


def _judged(summary: Summary) -> Iterator[tuple[str, ClaimJudgement | FigureJudgement]]:
    if isinstance(summary, DrillsSummary):
        yield from ((f"drill {drill.name}", row) for drill in summary.drills for row in drill.expectations)
    else:
        yield from ((f"{summary.experiment} on {claim.engine}", claim) for claim in summary.claims)


def _told(row: ClaimJudgement | FigureJudgement) -> str:
    return f"{row.sentence}: {wording.explanation(row)}"


def command(kind: str, title: str, message: str) -> str:
    """Return a workflow command; the characters that would end it or its title are escaped."""
    return f"::{kind} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(said: str, more: str = "") -> str:
    said = said.replace("%", "%25")
    for character in f"\r\n{more}":
        said = said.replace(character, f"%{ord(character):02X}")
    return said
