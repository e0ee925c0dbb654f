"""A run's verdicts in Markdown, for the job summary of a pipeline: the outcome first, then a table."""

import re
from collections.abc import Iterator
from functools import cache

from jinja2 import Environment

from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.statistics import Interval
from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.report import drilled, templates, wording
from replication_lab.report.rows import DrillRow, DrillsSummary, EffectRow, Summary

NONE = "–"
# Exit codes of drills, the worst first.
OF_CODES = (ExitCode.FINDING, ExitCode.UNKNOWN, ExitCode.GOOD)
# Characters that Markdown or HTML would read as markup in a cell.
MARKUP = re.compile(r"([\\|`*<>]|~(?! )|(?<!\w)_|_(?!\w)|(?<=\])\()")


def text(summary: Summary, run: str) -> str:
    """Return the outcome, the warnings and doubts, and the verdict tables of a run."""
    servers = dict.fromkeys(f"{lab.engine} ({lab.version})" for lab in summary.environment.labs)
    parts: dict[str, object] = {"summary": summary, "run": run, "servers": list(servers)}
    if isinstance(summary, DrillsSummary):
        parts["drills"] = sorted(summary.drills, key=lambda drill: OF_CODES.index(drill.exit_code))
    else:
        parts["claims"] = sorted(wording.unanswered(summary), key=_urgency)
    return _templates().get_template("run.md.j2").render(parts)


def of_comparison(**parts: object) -> str:
    """Return a comparison of two runs: the outcome first, then a table."""
    return _templates().get_template("comparison.md.j2").render(parts)


@cache
def _templates() -> Environment:
    found = templates.environment()
    found.filters["plain"] = plain
    found.globals |= {
        **{"wording": wording, "drilled": drilled, "figure": _figure, "reasons": _reasons},
        **{"times": _times, "p50": _p50},
    }
    return found


def plain(said: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return MARKUP.sub(r"\\\1", " ".join(said.split())) or NONE


def _urgency(row: Judgement) -> int:
    """Return the place of a verdict in a table: unexpected ones first, then unknown ones."""
    return 0 if row.changed else 1 if row.verdict is Verdict.UNKNOWN else 2


def _p50(effect: EffectRow) -> str:
    later = effect.latency_p50_difference_ms
    return f"{_marked(later, 0)}{later.low:+.3g} to {later.high:+.3g} ms" if later else _times(effect.latency_p50_ratio)


def _times(ratio: Interval | None) -> str:
    return f"{_marked(ratio, 1)}{wording.number(ratio.low)}–{wording.number(ratio.high)} times" if ratio else NONE


def _marked(found: Interval, same: float) -> str:
    """Return "~ " if the interval includes "no change", as `lab compare` marks it."""
    return "~ " if found.low <= same <= found.high else ""


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
