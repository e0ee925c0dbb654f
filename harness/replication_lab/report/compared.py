"""A comparison of two runs, as text, in Markdown or as a page: what differs, how each figure changed, what decides."""

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from replication_lab.model.comparing.comparison import ComparedOutcome, Comparison, FigureChange, RunSet
from replication_lab.model.comparing.run_ratio import RUN_EFFECT
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.figures import three_digits
from replication_lab.model.experiment.quantities import unit_of
from replication_lab.report import markdown

STYLES = {ComparedOutcome.WORSE: "red", ComparedOutcome.UNKNOWN: "yellow", ComparedOutcome.FINE: ""}
# Smaller changes are written with a decimal.
WHOLE_PERCENT = 10
ORDER = (ComparedOutcome.WORSE, ComparedOutcome.UNKNOWN, ComparedOutcome.FINE)
ENDINGS = {
    ExitCode.GOOD: "no figure is worse by more than {margin:.0%}",
    ExitCode.FINDING: "a figure is worse by more than {margin:.0%}, or a verdict became unexpected",
    ExitCode.UNKNOWN: "unknown whether a figure is worse by more than {margin:.0%}",
}


def rendered(found: Comparison, margin: float) -> Group:
    """Return the comparison for a terminal: the answer, what decides it, then the figures."""
    head = Text("\n".join([_ending(found, margin), *reasons(found), "", *_head(found)]))
    return Group(head, *_tables(found))


def markdown_text(found: Comparison, margin: float) -> str:
    """Return the comparison for the job summary of a pipeline: the outcome first, then a table."""
    parts = {"ending": _ending(found, margin), "head": _head(found), "rows": map(_cells, in_order(found))}
    return markdown.of_comparison(found=found, **parts)


def in_order(found: Comparison) -> list[FigureChange]:
    """Return the changes, the judged and worse ones first."""
    return sorted(found.changes, key=lambda change: (not change.judged, ORDER.index(change.outcome)))


def _cells(change: FigureChange) -> tuple[str, ...]:
    told = change.outcome if change.judged else "not judged"
    what = change.figure or verdicts(change)
    return told, change.of, change.engine, what, absolute(change), ratio(change), change.reason


def _head(found: Comparison) -> list[str]:
    runs = [f"before: {_told(found.earlier)}", f"after:  {_told(found.later)}"]
    return runs + [f"differs: {each}" for each in found.differs] + list(caveats(found))


def caveats(found: Comparison) -> Iterator[str]:
    """Yield a line for each run that is not complete, and one for each reason why little or nothing is compared."""
    yield from found.stopped
    if found.is_one_run:
        yield "both are the same run, which shows nothing: measure again, and compare with that run"
    if found.same_machine and not any(change.judged for change in found.changes):
        measured = dict.fromkeys(change.figure for change in found.changes if change.ratio)
        yield f"no figure is judged; --figure names others, measured: {', '.join(measured) or 'none'}"
    if not found.same_machine:
        yield "not compared: rates and latencies, since the machines differ"
    elif found.is_one_against_one and not found.is_one_run:
        yield (
            f"one run against one: equal runs differ by about {RUN_EFFECT:.0%}, so only a large change shows; compare "
            "with a folder of baselines, or measure both in the same rounds (--against, --vary)"
        )


def _ending(found: Comparison, margin: float) -> str:
    return f"{ENDINGS[ExitCode(found.exit_code)].format(margin=margin)} (exit code {found.exit_code})"


def _told(side: RunSet) -> str:
    found, more = side.latest, len(side.runs) - 1
    told = f"{found.run}, {found.experiment}, preset {found.preset}, {found.started}"
    return f"{told}, and {more} earlier run{'s' if more > 1 else ''}" if more else told


def _tables(found: Comparison) -> Iterator[Table | Text]:
    figures = [change for change in found.changes if change.figure]
    claims = [change for change in found.changes if not change.figure]
    for what, changes in (("case", figures), ("claim", claims)):
        if changes:
            yield Text()
            yield _table(what, changes, found)


def _table(what: str, changes: list[FigureChange], found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(what)
    table.add_column("figure" if what == "case" else "verdict", no_wrap=True)
    if what == "case":
        table.add_column("before → after", justify="right", no_wrap=True)
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    several = len({change.engine for change in found.changes}) > 1
    for change in changes:
        name = f"{change.engine}: {change.of}" if several else change.of
        outcome = Text(change.outcome if change.judged else "", style=STYLES[change.outcome])
        values = [absolute(change)] if what == "case" else []
        table.add_row(name, change.figure or verdicts(change), *values, ratio(change), outcome)
    return table


def verdicts(change: FigureChange) -> str:
    if change.before is None:
        return ""
    return change.before if change.before == change.after else f"{change.before} → {change.after or 'not judged'}"


def ratio(change: FigureChange) -> str:
    """Return "−13 % [−17 to −9.2]", with "~" before it if the interval includes 0, which shows no change."""
    found = change.ratio
    if found is None:
        return "–"
    mark = "~ " if found.low <= 1 <= found.high else ""
    return f"{mark}{_percent(found.estimate)} % [{_percent(found.low)} to {_percent(found.high)}]"


def absolute(change: FigureChange) -> str:
    """Return "54.1 → 28.2/s", the means of the rounds; an empty string if there are none."""
    if change.means is None:
        return ""
    old, new = map(three_digits, change.means)
    unit = unit_of(change.figure)
    return f"{old} → {new}{unit.removeprefix('1') if unit.startswith('1/') else f' {unit}'}".rstrip()


def _percent(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return format(change, "+.1f" if abs(change) < WHOLE_PERCENT else "+.0f").replace("-", "−")


def reasons(found: Comparison) -> Iterator[str]:
    """Yield a line for each judged figure that is worse, or for which it is unknown whether it is worse."""
    for change in found.changes:
        if change.judged and change.outcome is not ComparedOutcome.FINE:
            figure = f"{change.figure} of {change.of}" if change.figure else change.of
            measured = ratio(change) if change.ratio else ""
            told = ", ".join(filter(None, [absolute(change), measured, change.reason]))
            yield f"{change.outcome}: {figure}{f' on {change.engine}' if change.engine else ''}: {told}"


# At most this many changes are named in the answer; the table has all of them.
NAMED = 3


def page_text(found: Comparison, margin: float) -> str:
    """Return the page, in the form of the reports: the outcome, what differs between the runs, and each change."""
    # Only here: the charts of a page take long to import.
    from replication_lab.report import answers, page

    ending = ENDINGS[ExitCode(found.exit_code)].format(margin=margin)
    return page.rendered(
        "page_of_comparison.html.j2",
        found=found,
        margin=margin,
        changes=in_order(found),
        sentences=list(map(answers.sentence, (ending, *list(reasons(found))[:NAMED]))),
        doubts=[*(f"differs between the runs: {each}" for each in found.differs), *caveats(found)],
        ratio=ratio,
        absolute=absolute,
        verdicts=verdicts,
    )
