"""The formats of `lab report --format`, and the files of a report."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from replication_lab.model.comparing.digest import Digest
from replication_lab.model.comparing.digest import encode as encode_digest
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.core.visible import visible
from replication_lab.model.drill.drill_result import FigureJudgement
from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.quantities import unit_of
from replication_lab.model.record.record import Record
from replication_lab.report import wording
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
    from replication_lab.report import junit, markdown

    makers: dict[str, Callable[[], str]] = {
        "markdown": lambda: markdown.text(summary, run),
        "github": lambda: annotations(summary),
        "junit": lambda: junit.render(summary).decode(),
        "csv": lambda: (
            csv_of_drills(run, summary) if isinstance(summary, DrillsSummary) else csv_of_experiment(digest())
        ),
        "benchmark": lambda: benchmark(digest()),
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


# A spreadsheet computes a cell that begins with one of these. The text may come from a record of somebody else.
FORMULAS = ("=", "+", "-", "@", "\t")


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV; a text that a spreadsheet would compute gets an apostrophe, numbers stay as they are.

    A carriage return would begin a new row for many readers, and is escaped as other control characters.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_as_text(cell) for cell in row] for row in (head, *rows))
    return text.getvalue()


def _as_text(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    said = visible(cell)
    return f"'{said}" if said.startswith(FORMULAS) else said


HEADINGS = ("run", "engine", "version", "case", "figure", "unit", "number", "value", "doubt")


def csv_of_experiment(found: Digest) -> str:
    """Return a line of CSV for each figure of each quiet round, with the reasons to doubt its case."""
    return csv_text(
        HEADINGS,
        (
            [found.run, name, engine.version, case, figure, unit_of(figure), number, value, "; ".join(measured.doubts)]
            for name, engine in found.engines.items()
            for case, measured in engine.cases.items()
            for figure, values in measured.figures.items()
            for number, value in enumerate(values, 1)
        ),
    )


def csv_of_drills(run: str, summary: DrillsSummary) -> str:
    """Return a line of CSV for each figure of each drill, the drill's name as the case, with its doubts."""
    version = ", ".join(dict.fromkeys(lab.version for lab in summary.environment.labs))
    engine = ", ".join(summary.engines)
    return csv_text(
        HEADINGS,
        (
            [run, engine, version, drill.name, figure, _unit_of(figure), 1, value, "; ".join(drill.doubts)]
            for drill in summary.drills
            for figure, value in drill.figures.items()
        ),
    )


def _unit_of(figure: str) -> str:
    name = figure.partition(".")[0]
    return "s" if name.endswith("_s") else unit_of(name)


def benchmark(found: Digest) -> str:
    """Return the mean throughput of each case as github-action-benchmark reads it (customBiggerIsBetter)."""
    return msgspec.json.format(msgspec.json.encode(list(_entries(found))), indent=2).decode() + "\n"


def _entries(found: Digest) -> Iterator[dict[str, object]]:
    for name, engine in found.engines.items():
        for case, measured in engine.cases.items():
            values = measured.figures.get("throughput")
            if values and not measured.doubts:
                yield {
                    "name": f"{found.experiment}: {case} ({name})",
                    "unit": "commits/s",
                    "value": sum(values) / len(values),
                    "range": f"± {(max(values) - min(values)) / 2:.4g}",
                    "extra": f"{len(values)} rounds, {engine.version}",
                }


def annotations(summary: Summary) -> str:
    """Return a line for each verdict that a reader must see; empty if everything came out as expected.

    The lines are workflow commands of GitHub Actions (https://docs.github.com/actions, "Workflow commands").
    """
    return "".join(f"{line}\n" for line in _annotations(summary))


def _annotations(summary: Summary) -> Iterator[str]:
    if why := wording.broke_off(summary):
        yield command("error", "the run did not finish", why)
    yield from (command("warning", "doubt", doubt) for doubt in summary.doubts)
    for where, row in _judged(summary):
        if row.changed or row.verdict is Verdict.UNKNOWN:
            told = f"{where}: {row.sentence}: {wording.explanation(row)}"
            yield command("error" if row.changed else "warning", wording.verdict(row), told)
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


def command(kind: str, title: str, message: str) -> str:
    """Return a workflow command; the characters that would end it or its title are escaped."""
    return f"::{kind} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(said: str, more: str = "") -> str:
    said = said.replace("%", "%25")
    for character in f"\r\n{more}":
        said = said.replace(character, f"%{ord(character):02X}")
    return said
