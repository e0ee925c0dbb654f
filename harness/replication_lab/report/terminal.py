"""A summary in the terminal: per engine a table of figures, then the claims; made for 100 columns and for pipes."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import drilled, wording
from replication_lab.report.rows import ComparisonRow, EffectRow, ExperimentSummary

STYLES = {"good": "green", "note": "blue", "bad": "red", "doubt": "yellow"}

AS_A_TITLE: dict[str, Any] = {"title_justify": "left", "title_style": "bold"}
PIPE_WIDTH = 100  # a pipe has no width of its own, and 80 columns would break the figures
WIDE_PIPE = 120  # a table with what drills found has two columns more


def pipe_width(summary: ExperimentSummary) -> int:
    """Return the number of columns for a pipe."""
    return WIDE_PIPE if summary.drilled else PIPE_WIDTH


def render(summary: ExperimentSummary) -> RenderableType:
    parts: list[RenderableType] = [Text(summary.question, style="bold"), _subtitle(summary), ""]
    parts += [Text(line, style="yellow") for line in wording.warnings(summary)]
    if summary.comparison:
        parts += [_comparison(summary.comparison), ""]
    # The cases that a user compares with drills are in one table, also if topologies have engines of their own.
    tables = [summary.engines] if summary.drilled else [[engine] for engine in summary.engines]
    for engines in tables:
        parts += [_cases(engines, summary) if summary.answers else _figures(engines[0], summary), ""]
    if summary.effects:
        parts += [_effects(summary.effects), ""]
    for engine in summary.engines:
        parts += [_claims(engine, summary), ""]
    if summary.drilled:
        parts += [*map(Text, drilled.notes(summary.drilled)), ""]
    parts += [Text(line) for line in wording.not_judged(summary)]
    parts += [Text(line, style="dim") for line in filter(None, [wording.expected_wrong(summary)])]
    parts.append(Text(wording.overall(summary), style=f"bold {STYLES[wording.TONES[summary.verdict]]}"))
    return Group(*parts, *filter(None, [wording.remedy(summary)]))


def _subtitle(summary: ExperimentSummary) -> Text:
    if summary.answers:
        return Text(f"a question, seed {summary.seed}", style="dim")
    published = f"published: {summary.source}" if summary.source else "nothing published to compare with"
    return Text(f"{summary.experiment}, {summary.preset}, seed {summary.seed} · {published}", style="dim")


def _effects(effects: list[EffectRow]) -> Table:
    """Return what each setting changes, the other varied settings first."""
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column()
    for effect in effects:
        table.add_row(Text(effect.common, style="bold"), Text(effect.sentence, style="" if effect.known else "yellow"))
    return table


def _cases(engines: list[str], summary: ExperimentSummary) -> Table:
    """Return the figures of a question's cases, one case a row: commits a second, latencies, and p50 in round trips.

    Then what its drills found, if it has any.

    Latencies are those of all rounds together. With a rate the tail matters most, so it is shown as well.
    """
    servers = "; ".join(_server(engine, summary) for engine in engines)
    table = Table(title=servers, **AS_A_TITLE, box=None, pad_edge=False)
    table.add_column("case", no_wrap=True)
    tail = ("p99.9_ms", "max_ms") if any("rate_asked" in case.figures for case in summary.cases) else ()
    of_tail = (name.replace("_", " ") for name in tail)
    counts = summary.counts
    headings = (f"{counts}s/s", *(f"{name} ms" for name in wording.LATENCIES), *of_tail, "p50 ÷ RTT")
    drills = {(row.engine, row.case): row for row in summary.drilled}
    for heading in (*headings, *(("lost", "s without service") if drills else ())):
        # In a narrow table a heading wraps between words instead of being cut off.
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    for case in summary.cases:
        if case.engine in engines:
            *figures, trips = wording.of_a_case(case)
            figures += [case.pooled.get(name) for name in tail]
            row = drills.get((case.engine, case.name))
            told = [drilled.lost(row), drilled.without_service(row)] if row else []
            table.add_row(case.name, *map(wording.number, figures), "–" if trips is None else f"{trips:.2f}", *told)
    return table


def _server(engine: str, summary: ExperimentSummary) -> str:
    version = next((lab.version for lab in summary.environment.labs if lab.engine == engine), "was never started")
    return f"{engine} ({version})"


def _comparison(comparison: ComparisonRow) -> Table:
    """Return a table with engines as rows: a terminal is too narrow for nine columns."""
    table = Table(title=comparison.title, **AS_A_TITLE, box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for row in comparison.rows:
        table.add_column(f"{row.label} {comparison.unit}", justify="right", no_wrap=True)
    for number, column in enumerate(comparison.columns):
        table.add_row(column, *(wording.cell(row.cells[number]) for row in comparison.rows))
    return table


def _figures(engine: str, summary: ExperimentSummary) -> Table:
    table = Table(
        title=f"{_server(engine, summary)}; ratio = measured / predicted", **AS_A_TITLE, box=None, pad_edge=False
    )
    table.add_column("case", no_wrap=True)
    table.add_column("figure", no_wrap=True)
    for heading in ("published", "predicted", "measured", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in summary.cases:
        if case.engine == engine:
            name = case.name
            for figure, row in wording.headlines(case.figures).items():
                label = figure if figure.endswith("_ms") or not row.unit else f"{figure} {row.unit}"
                table.add_row(
                    name,
                    label,
                    wording.number(row.published),
                    wording.number(row.predicted),
                    wording.measured(row),
                    wording.number(row.ratio_to_predicted),
                )
                name = ""
    return table


def _claims(engine: str, summary: ExperimentSummary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(max_width=20)
    table.add_column()
    # After an interruption all that is not decided has the same reason, which is said above.
    left_out = {Verdict.UNKNOWN} if summary.interrupted else set()
    for claim in wording.unanswered(summary):
        if claim.engine == engine and claim.verdict not in left_out:
            table.add_row(Text(wording.verdict(claim), style=STYLES[wording.tone(claim)]), _told(claim))
    return table


def _told(claim: ClaimJudgement) -> Text:
    text = Text(claim.sentence)
    text.append(f"\n{claim.relation}\n{wording.evidence(claim)}", style="dim")
    if wording.tone(claim) != "good" or claim.interval is None:
        text.append(f"\n{wording.explanation(claim)}", style=STYLES[wording.tone(claim)])
    return text
