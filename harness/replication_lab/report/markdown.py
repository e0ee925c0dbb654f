"""A run's verdicts in Markdown, for the job summary of a pipeline: the outcome first, then a table."""

import re
from collections.abc import Iterable, Iterator, Sequence

from replication_lab.model.core.event import LabCameUp
from replication_lab.model.core.statistics import Interval
from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import drilled, wording
from replication_lab.report.rows import DrilledRow, DrillRow, DrillsSummary, EffectRow, ExperimentSummary, Summary

NONE = "–"
# Characters that Markdown or HTML would read as markup in a cell.
MARKUP = re.compile(r"([\\|`*<>]|~(?! )|(?<!\w)_|_(?!\w)|(?<=\])\()")


def text(summary: Summary, run: str) -> str:
    """Return the outcome, the warnings and doubts, and the verdict tables of a run."""
    body = _drills(summary) if isinstance(summary, DrillsSummary) else _experiment(summary)
    return "\n\n".join([*_head(summary, run), *body]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are plain text, and what Markdown would read as markup is escaped."""
    lines = [headings, ["---"] * len(headings), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(said: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return MARKUP.sub(r"\\\1", " ".join(said.split())) or NONE


def items(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _head(summary: Summary, run: str) -> Iterator[str]:
    if isinstance(summary, DrillsSummary):
        yield f"## Drills of {plain(summary.topology)}"
        of_run = []
    else:
        yield f"## {plain(summary.question.strip().splitlines()[0])}"
        of_run = [summary.experiment, f"preset {summary.preset}"]
    yield f"**{summary.verdict}**: {plain(wording.overall(summary))}"
    servers = dict.fromkeys(map(_server, summary.environment.labs))
    yield plain(", ".join([f"Run {run}", *of_run, f"seed {summary.seed}", *servers]))
    if told := wording.warnings(summary):
        yield items(told)


def _server(lab: LabCameUp) -> str:
    return f"{lab.engine} ({lab.version})"


# --- experiments and questions ----------------------------------------------------------------------------------------


def _experiment(summary: ExperimentSummary) -> Iterator[str]:
    if summary.effects:
        yield table(("setting", "with", "throughput", "p50", "answer"), map(_effect, summary.effects))
    if summary.drilled:
        yield table(("case", "drill", "lost", "RPO (s)", "RTO (s)", "not verified"), map(_drilled, summary.drilled))
        yield items(drilled.notes(summary.drilled))
    if shown := wording.unanswered(summary):
        headings = ("verdict", "claim", "engine", "measured [interval]", "bound", "reason")
        yield table(headings, map(_claim, sorted(shown, key=_urgency)))
    if left := wording.not_judged(summary):
        yield items(left)


def _urgency(row: Judgement) -> int:
    """Return the place of a verdict in a table: unexpected ones first, then unknown ones."""
    return 0 if row.changed else 1 if row.verdict is Verdict.UNKNOWN else 2


def _claim(claim: ClaimJudgement) -> tuple[str, ...]:
    figures = f"{wording.measured(claim)} {claim.unit}".strip()
    return (
        wording.verdict(claim),
        claim.sentence,
        claim.engine,
        figures,
        claim.relation,
        wording.explanation(claim),
    )


def _effect(effect: EffectRow) -> tuple[str, ...]:
    later = effect.latency_p50_difference_ms
    p50 = f"{_marked(later, 0)}{later.low:+.3g} to {later.high:+.3g} ms" if later else _times(effect.latency_p50_ratio)
    return effect.changed, effect.common, _times(effect.throughput_ratio), p50, effect.sentence


def _times(ratio: Interval | None) -> str:
    return f"{_marked(ratio, 1)}{wording.number(ratio.low)}–{wording.number(ratio.high)} times" if ratio else NONE


def _marked(found: Interval, same: float) -> str:
    """Return "~ " if the interval includes "no change", as `lab compare` marks it."""
    return "~ " if found.low <= same <= found.high else ""


def _drilled(row: DrilledRow) -> tuple[str, ...]:
    lost = drilled.lost(row).partition(" (")[0]
    rpo = f"{row.rpo_s.high:.2f}" if row.rpo_s else NONE
    return row.case, row.asked, lost, rpo, drilled.without_service(row), "; ".join(row.not_proved)


# --- drills -----------------------------------------------------------------------------------------------------------


def _drills(summary: DrillsSummary) -> Iterator[str]:
    headings = ("verdict", "drill", "lost", "RPO (s)", "RTO (s)", "reason")
    yield table(headings, map(_drill, sorted(summary.drills, key=lambda drill: OF_CODES.index(drill.exit_code))))


# The worst verdict of a drill, by its exit code; the worst first.
OF_CODES = (1, 2, 0)
VERDICTS = {0: "as expected", 1: "CHANGED", 2: "UNKNOWN"}


def _drill(drill: DrillRow) -> tuple[str, ...]:
    lost, rpo, rto = (_figure(drill, name) for name in ("lost", "rpo_s", "rto_s"))
    return VERDICTS[drill.exit_code], drill.name, lost, rpo, rto, "; ".join(_reasons(drill))


def _figure(drill: DrillRow, name: str) -> str:
    found = drill.figures.get(name)
    return NONE if found is None else f"{found:.2f}" if isinstance(found, float) else str(found)


def _reasons(drill: DrillRow) -> Iterator[str]:
    """Yield each verdict that is not a plain HOLDS, with its figure, its bound and the reason; then the doubts."""
    for row in drill.expectations:
        if row.changed or row.verdict is not Verdict.HOLDS:
            measured = NONE if row.measured is None else str(row.measured)
            yield f"{wording.verdict(row)}: {row.sentence} ({row.figure} {measured}, bound {row.bound}): " + (
                wording.explanation(row)
            )
    yield from (f"doubt: {doubt}" for doubt in drill.doubts)
    yield from (f"forbidden: {line}" for line in drill.forbidden)
    if all(row.verdict is Verdict.HOLDS for row in drill.expectations) and drill.expectations:
        yield f"all {len(drill.expectations)} expectations hold"
