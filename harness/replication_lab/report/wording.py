"""Figures and verdicts in words, the same in every rendering."""

from collections import Counter
from typing import Any

from replication_lab.model.core.groups import grouped
from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.model.experiment.judgement import ClaimJudgement, NotJudged
from replication_lab.report import templates
from replication_lab.report.rows import CaseRow, CellRow, ExperimentSummary, FigureRow, Summary

# Whole numbers below LONG, and all numbers from FOUR_DIGITS on, are written without decimals.
LONG, FOUR_DIGITS = 1e6, 1000
HEADLINES = ("throughput", "latency_p50_ms")
# The latencies in the table of a question's cases.
LATENCIES = ("min", "p50", "p95", "p99")
# The tones of a run's outcomes, which are those of verdicts.
TONES = {"AS_EXPECTED": "good", "CHANGED": "bad", "CRASHED": "bad", "UNKNOWN": "doubt"}
OVERALL = {
    "AS_EXPECTED": "everything came out as expected",
    "CHANGED": "a verdict is not the expected one",
    "UNKNOWN": "not everything could be decided",
    "CRASHED": "the run crashed",
}
# The same for a user's question.
ANSWERED = {
    "AS_EXPECTED": "the question is answered",
    "CHANGED": "a claim does not hold",
    "UNKNOWN": "the question is answered only in part",
    "CRASHED": "the run crashed",
}

# What "0 lost" in a drill says, and what it does not.
CHECKED = "Checked: each acknowledged transaction, on every copy. Lost updates were not looked for."


def number(value: float | None) -> str:
    """Format four significant digits, no exponent: 1067, 11.42, 0.9780."""
    if value is None:
        return "–"
    if value == 0 or (float(value).is_integer() and abs(value) < LONG):
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= FOUR_DIGITS else f"{value:#.4g}".rstrip(".")


def measured(row: FigureRow | ClaimJudgement) -> str:
    """Format the value and its interval: 11.42 [11.38–11.46]."""
    value, bounds = (row.value, row) if isinstance(row, FigureRow) else (row.measured, row.interval)
    if bounds is None or bounds.low is None:
        return number(value)
    return f"{number(value)} [{number(bounds.low)}–{number(bounds.high)}]"


def cell(found: CellRow | None) -> str:
    """Format a cell as in the literature: average (minimum–maximum)."""
    return "–" if found is None else f"{number(found.average)} ({number(found.least)}–{number(found.most)})"


def verdict(row: Judgement) -> str:
    """Return the verdict, with the expected one if it differs."""
    if row.changed:
        return f"{row.verdict}, expected {row.expected}"
    return f"{row.verdict} as expected" if row.verdict is Verdict.REFUTED else str(row.verdict)


def tone(row: Judgement) -> str:
    """Return the colour class of a verdict: good, note (an expected refutation), bad (an unexpected one) or doubt."""
    if row.changed:
        return "bad"
    return {Verdict.HOLDS: "good", Verdict.REFUTED: "note"}.get(row.verdict, "doubt")


def evidence(claim: ClaimJudgement) -> str:
    """Return the known figures: published, predicted, measured."""
    known = {"published": number(claim.published), "predicted": number(claim.predicted), "measured": measured(claim)}
    unit = f" {claim.unit}" if claim.unit else ""
    figures = [f"{word} {text}{unit}" for word, text in known.items() if text != number(None)]
    return " · ".join(figures)


def explanation(row: Judgement) -> str:
    """Return the reason: the known one for an expected refutation, else how the verdict was reached or missed."""
    if row.verdict is Verdict.REFUTED and not row.changed and row.because:
        return f"{row.because} ({row.reason})"
    return row.reason


def overall(summary: Summary) -> str:
    """Return one line: the outcome, then how many verdicts of each kind; of a question first how much is known."""
    told, judged, said = [], summary.judged, OVERALL
    if isinstance(summary, ExperimentSummary) and summary.answers:
        said = ANSWERED
        if figures := [row for row in summary.claims if row.id in _of_answers(summary)]:
            known = sum(row.verdict is Verdict.HOLDS for row in figures)
            told = [f"{known} of {len(figures)} figures are known"]
            judged = [row for row in summary.claims if row not in figures]
    counts = Counter(map(verdict, judged))
    if isinstance(summary, ExperimentSummary) and summary.not_judged:
        counts["not judged"] = len(summary.not_judged)
    told += [f"{count} {text}" for text, count in counts.items()]
    return f"{said[summary.verdict]}: {', '.join(told) or 'nothing was judged'} (exit code {summary.exit_code})"


def expected_wrong(summary: ExperimentSummary) -> str:
    """Return how many verdicts may be wrong by chance; an empty string if no interval decided any."""
    if not summary.by_interval:
        return ""
    many, wrong = summary.by_interval, summary.expected_wrong
    rounds = " and ".join(f"{count} at {site}" for site, count in summary.sites.items())
    return (
        f"{many} verdict{'s' if many > 1 else ''} by intervals, each wrong with a risk of at most {wrong / many:.0%}: "
        f"expect at most {wrong:.2g} wrong ones{f'; rounds: {rounds}, and each site is a block' if rounds else ''}"
    )


def remedy(summary: ExperimentSummary) -> str:
    """Return what makes the missing figures of a question known; an empty string if none is missing."""
    missing = [row for row in summary.claims if row.id in _of_answers(summary) and row.verdict is Verdict.UNKNOWN]
    rounds = max((row.rounds_needed or 0 for row in missing), default=0)
    return f"for the missing figures: --runs {rounds}, longer loads (--duration), or a wider --margin" if rounds else ""


def broke_off(summary: Summary) -> str:
    """Return the reason why the run did not finish; an empty string if it did."""
    if summary.crashed is not None:
        return f"crashed: {summary.crashed}"
    if summary.interrupted is not None:
        return f"interrupted by {summary.interrupted}"
    return "" if summary.ended else "the record has no end: the run was killed, or is still running"


def warnings(summary: Summary) -> list[str]:
    """Return what a reader must know before the figures."""
    return templates.lines_of(_macros().warnings(summary))


def machines(summary: Summary) -> str:
    """Return the virtual machines' launcher and their disks' costs; an empty string if there were none."""
    return str(_macros().machines(summary))


def _macros() -> Any:
    return templates.macros("wording.j2", settings=_settings, broke_off=broke_off)


def _settings(summary: Summary, name: str, after: str = "") -> list[str]:
    """Return the recorded settings of the labs whose names contain this one; only the part behind the text `after`."""
    found = (
        str(text) for lab in summary.environment.labs for key, text in lab.settings.items() if name in key and text
    )
    return [text.partition(after)[2] if after else text for text in found]


def of_a_case(case: CaseRow) -> list[float | None]:
    """Return a case's throughput, its shortest latency, three percentiles, and the median divided by the round trip.

    The latencies are those of all rounds together. The load of another program may record only percentiles of each
    round: then the means of these are returned. Without a toxic there is no round trip.
    """

    def value(name: str) -> float | None:
        return case.figures[name].value if name in case.figures else None

    latencies = [case.pooled.get(f"{name}_ms", value(f"latency_{name}_ms")) for name in LATENCIES]
    median, trip = latencies[1], value("rtt_p50_ms")
    trips = None if median is None or not trip else round(median / trip, 2)
    return [value("throughput"), *latencies, trips]


def headlines(figures: dict[str, FigureRow]) -> dict[str, FigureRow]:
    """Return the figures that a table shows: those with a predicted or published value and the usual ones; else all.

    A case's other figures stay in summary.json.
    """
    shown = {
        name: row
        for name, row in figures.items()
        if name in HEADLINES or row.published is not None or row.predicted is not None
    }
    return shown or figures


def why_not_judged(left: NotJudged) -> str:
    return f"{left.case}: {left.reason}" if left.case else left.reason


def unanswered(summary: ExperimentSummary) -> list[ClaimJudgement]:
    """Return the claims to show beside the answers of a question: without those that an answer has and that hold."""
    answered = _of_answers(summary)
    return [claim for claim in summary.claims if claim.id not in answered or claim.verdict is not Verdict.HOLDS]


def _of_answers(summary: ExperimentSummary) -> set[str]:
    """Return the claims of a question that say how well a figure is known."""
    effects = {name for effect in summary.effects for name in effect.claims}
    return effects | {name for row in summary.drilled for name in row.claims}


def not_judged(summary: ExperimentSummary) -> list[str]:
    """Return what was not judged, and why: a line for each engine and reason, with the claims that it concerns."""
    claims = grouped(((left.engine, left.reason), left.claim) for left in summary.not_judged)
    return [f"not judged: {engine}, {', '.join(names)}: {why}" for (engine, why), names in claims.items()]
