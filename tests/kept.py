"""The parts of pages that are made from kept records: `make figures` writes them, and a test finds the stale ones.

A part follows the line `<!-- from a kept record: KIND … -->`: a block of code or a table, between empty lines.
"""

import io
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import yaml
from replication_lab import experiments, runs
from replication_lab.model.drill import checkers
from replication_lab.model.drill import history as ledger
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import DrillsSummary, ExperimentSummary, Summary, drill_text, terminal, wording
from replication_lab.report.rows import CaseRow, DrillRow, FigureRow
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, journal
from rich.console import Console

from tests import drill_page, kept_anomalies, kept_managers, kept_noise, kept_rates
from tests.bench.figure import BenchFigure
from tests.kept_comparisons import WIDTH, compare, history
from tests.kept_predictions import predictions
from tests.kept_table import digits, known_value, quoted, span, table, with_interval
from tests.records import golden

ROOT = catalogue.ROOT
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FAULTS = ROOT / "docs" / "faults.md"
BENCH = golden.HERE / "bench.json"
PUBLISHED, ANSWERS = golden.HERE / "published.yaml", golden.HERE / "answers.yaml"
# A claim (ENGINE:CLAIM if it is of another engine), or a case and its figure, in the text of an answer.
NAMED = re.compile(r"\{([^}]+)\}")
# The figures of a replicated disk that are printed without decimals.
WHOLE = ("requests_per_second", "latency_avg_ms", "latency_p95_ms", "latency_min_ms", "latency_max_ms")
PART = re.compile(r"^(<!-- from a kept record: ([^\n]+) -->\n\n)(```[^\n]*\n.*?^```\n|(?:[^\n]+\n)+)", re.M | re.S)


def page(path: Path) -> str:
    """Return a page with every part as today's code makes it of the kept records."""
    if path == FAULTS:
        kept = [summary for name in drill_set.known() if (summary := drills_of(name))]
        return drill_page.page(kept, drill_set.known(), path.read_text())
    return PART.sub(lambda found: found[1] + (_part(*found[2].split()) or found[3]), path.read_text())


def _part(kind: str, *which: str) -> str:
    """Return a part of a page; empty for an experiment whose record is not kept yet."""
    if kind in ("claims", "figures", "first_lines") and which[0] in waiting():
        return ""
    return MAKERS[kind](*which)


def waiting() -> set[str]:
    """Return the experiments of which no record is kept yet; their pages say so."""
    return {name for name in experiments.names() if name not in golden.names()}


@cache
def judged(name: str) -> Summary:
    """Return the summary of a kept record."""
    with TemporaryDirectory() as folder:
        return runs.judge(golden.unpack(name, Path(folder)))


@cache
def drills_of(topology: str) -> DrillsSummary | None:
    """Return the summary of a topology's kept record in today's words; None if none is kept.

    A record that has another name than a topology keeps its words.
    """
    name = f"drill-{topology}"
    if name not in golden.names():
        return None
    found = judged(name)
    assert isinstance(found, DrillsSummary)
    today = {drill.name: drill for drill in drill_set.known().get(topology, [])}
    drills = [reworded(drill, today[drill.name]) if drill.name in today else drill for drill in found.drills]
    return msgspec.structs.replace(found, drills=drills)


def reworded(row: DrillRow, today: Drill) -> DrillRow:
    """Return a result with the sentences that the drill has now, of those with the same figure and bound."""
    now = {(each.figure, each.bound): each for each in today.expected}
    expectations = [
        msgspec.structs.replace(each, sentence=new.says, because=new.because)
        if (new := now.get((each.figure, each.bound)))
        else each
        for each in row.expectations
    ]
    return msgspec.structs.replace(row, about=today.about, expectations=expectations)


def drill(topology: str, name: str) -> str:
    """Return what `lab report` prints of a drill."""
    kept = drills_of(topology)
    assert kept, f"no drills of {topology} are kept"
    return f"```text\n{drill_text.paragraph(next(row for row in kept.drills if row.name == name)).strip()}\n```\n"


# --- experiments and questions ----------------------------------------------------------------------------------------


@cache
def experiment(name: str) -> ExperimentSummary:
    found = judged(name)
    assert isinstance(found, ExperimentSummary)
    return found


def measured(claim: ClaimJudgement) -> str:
    if claim.measured is None or claim.interval is None:
        return known_value(claim.measured)
    return with_interval(claim.measured, claim.interval.low, claim.interval.high)


def claims(name: str) -> str:
    """Return the claims of a record, with what was published and predicted."""

    def rows() -> Iterator[tuple[str, ...]]:
        for row in experiment(name).claims:
            known = " as expected" if row.verdict == row.expected != "HOLDS" else ""
            given = (quoted(row.published), known_value(row.predicted))
            yield row.engine, row.sentence, *given, measured(row), f"{row.verdict}{known}"

    return table(("engine", "claim", "published", "predicted", "measured", "verdict"), rows())


def figures(name: str, engine: str) -> str:
    """Return the figures of a record's cases on one engine."""

    def rows() -> Iterator[tuple[str, ...]]:
        for case in (case for case in experiment(name).cases if case.engine == engine):
            for at, (figure, row) in enumerate(wording.headlines(case.figures).items()):
                label = figure if figure.endswith("_ms") or not row.unit else f"{figure} ({row.unit})"
                known = (quoted(row.published), known_value(row.predicted))
                ratio = known_value(row.ratio_to_predicted)
                yield "" if at else f"`{case.name}`", label, *known, of_a_figure(row), ratio

    head = ("case", "figure", "published", "predicted", "measured", "measured / predicted")
    return table(head, rows())


def of_a_figure(row: FigureRow) -> str:
    if row.value is None or row.low is None or row.high is None:
        return known_value(row.value)
    return with_interval(row.value, row.low, row.high)


def answers() -> list[tuple[dict[str, str], dict[str, ClaimJudgement]]]:
    """Return each published measurement with its answer, and the claims that the answer names."""
    found = []
    for each in yaml.safe_load(PUBLISHED.read_text()):
        if each["record"] in waiting():
            continue
        summary = experiment(each["record"])
        rows = _by_name(summary)
        found.append((each, {name: rows[name] for name in NAMED.findall(each["answer"])}))
    return found


def published() -> str:
    """Return README's table of published measurements: data of published.yaml, figures of the records."""

    def rows() -> Iterator[tuple[str, ...]]:
        for each, claims in answers():
            answer = NAMED.sub(lambda name, claims=claims: measured(claims[name[1]]), each["answer"])
            page, _, anchor = each["page"].partition("#")
            target = f"docs/{page}.md#{anchor}" if anchor else f"docs/{page}.md"
            yield each["published"], f"[{each.get('named', page)}]({target})", answer

    return table(("published", "repeated as", "answer today"), rows())


def _told(summary: ExperimentSummary) -> str:
    """Return the engine that answers are of: MariaDB, or the first one of a record without it."""
    engines = [case.engine for case in summary.cases]
    return "mariadb" if "mariadb" in engines else engines[0]


def _by_name(summary: ExperimentSummary) -> dict[str, ClaimJudgement]:
    """Return its claims by the names that answers have for them."""
    own = {row.id: row for row in summary.claims if row.engine == _told(summary)}
    return own | {f"{row.engine}:{row.id}": row for row in summary.claims}


def first_lines(page: str) -> str:
    """Return the answer of a page of results: words of answers.yaml, figures of the kept record."""
    given = yaml.safe_load(ANSWERS.read_text())[page]
    found = experiment(given["record"])
    told = _told(found)
    claims = _by_name(found)
    cases = {case.name: case for case in found.cases if case.engine == told}

    def figure(name: re.Match[str]) -> str:
        if name[1] in claims:
            return measured(claims[name[1]])
        case, _, which = name[1].rpartition(".")
        return of_a_figure(cases[case].figures[which])

    return textwrap.fill(NAMED.sub(figure, given["answer"]), WIDTH, break_on_hyphens=False) + "\n"


def drbd_states() -> str:
    """Return what a replicated disk does to a load, by its state; round brackets have the published values."""
    said = {
        "alone": "alone",
        "connected": "connected, defaults",
        "tuned": "connected, tuned",
        "flushing": "only `disk-flushes no`",
        "network": "only the network's settings",
        "activity-log": "only `al-extents 257`",
    }
    cases = {case.name: case for case in experiment("drbd_cost").cases}

    def rows() -> Iterator[tuple[str, ...]]:
        for name, words in said.items():
            found = cases[name].figures
            whole = [f"{found[each].value:.0f}{_published(found[each])}" for each in WHOLE]
            peer = [f"{found[each].value:.0f}" for each in ("peer_writes", "peer_flushes")]
            yield words, of_a_figure(found["throughput"]) + _published(found["throughput"]), *whole, ", ".join(peer)

    head = ("tps", "rw requests/s", "avg ms", "95th ms", "min ms", "max ms", "peer's writes, flushes a load")
    return table(("state", *head), rows())


def _published(figure: FigureRow) -> str:
    return "" if figure.published is None else f" ({quoted(figure.published)})"


def answer(name: str) -> str:
    """Return what `lab ask` prints of a question into a pipe; nothing while no such record is kept."""
    if name not in golden.names():
        return ""
    summary = experiment(name)
    width, file = terminal.WIDE_PIPE if summary.drilled else terminal.PIPE_WIDTH, io.StringIO()
    Console(width=width, file=file).print(terminal.render(summary))
    printed = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
    return f"```text\n{re.sub(chr(10) * 3, chr(10) * 2, printed).strip()}\n```\n"


def effects(name: str) -> str:
    """Return the lines of a question's answer, one for each effect; nothing while no such record is kept."""
    if name not in golden.names():
        return ""
    found = experiment(name).effects
    width = max(len(effect.common) for effect in found)
    return "```text\n" + "".join(f"{each.common:{width}}  {each.sentence}\n" for each in found) + "```\n"


def disk_use(name: str) -> str:
    """Return what commits cost the source's disk: requests a commit, and the share of time in which it was busy."""

    def rows() -> Iterator[tuple[str, ...]]:
        for case in sorted(experiment(name).cases, key=lambda each: each.name.split(",")[::-1]):
            did = [_figure(case, f"source_disk_{each}_per_second") for each in ("writes", "flushes")]
            used = [digits(each / _figure(case, "throughput")) for each in did]
            yield case.name, *used, f"{100 * _figure(case, 'source_disk_busy'):.0f} %"

    return table(("case", "writes a commit", "flushes a commit", "disk busy"), rows())


# The cases that have a row, by their names; MariaDB waits at AFTER_COMMIT by default.
NAMES = {
    "topology=async": "asynchronous",
    "topology=semisync": "semi-synchronous (AFTER_COMMIT)",
    "wait_point=AFTER_SYNC": "semi-synchronous (AFTER_SYNC)",
    "topology=drbd": "DRBD, protocol C",
    "topology=galera": "Galera, 3 nodes",
    "topology=group": "Group Replication, 3 nodes",
}


def topologies(*names: str) -> str:
    """Return the table of questions that drilled each of their cases: what a commit costs, what is lost."""
    drilled = {each.case: each for name in names for each in experiment(name).drilled}
    outages = {case: seconds for name in names for case, seconds in _outages(name).items()}
    cases = [case for name in names for case in experiment(name).cases if case.name in NAMES]

    def rows() -> Iterator[tuple[str, ...]]:
        for case in sorted(cases, key=lambda case: -_figure(case, "throughput")):
            latencies = [case.pooled[name] for name in ("min_ms", "p50_ms", "p99_ms")]
            found = drilled[case.name]
            assert found.lost
            lost = span(found.lost.low, found.lost.high, 0)
            # Clients of a drill pause, so that they write at another rate than the load.
            before = [phase for drill in found.drills for phase in drill.phases if phase.name == "before"]
            rates = [phase.throughput or 0 for phase in before]
            yield (
                NAMES[case.name],
                digits(_figure(case, "throughput")),
                " / ".join(map(digits, latencies)),
                f"{latencies[1] / _figure(case, 'rtt_p50_ms'):.2f}",
                f"{f'**{lost}**' if lost != '0' else lost}, at {span(min(rates), max(rates), 0)}/s",
                span(min(outages[case.name]), max(outages[case.name]), 1),
            )

    head = ("transactions/s", "fastest / p50 / p99, ms", "p50 ÷ RTT", "lost, at what rate", "s of outage")
    return table(("topology", *head), rows())


def _figure(case: CaseRow, name: str) -> float:
    value = case.figures[name].value
    assert value is not None
    return value


def _outages(name: str) -> dict[str, list[float]]:
    """Return the outage that clients saw in each drill of a question, by case: an older record's figures have none."""
    found: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder:
        run = golden.unpack(name, Path(folder))
        for each in journal.read(run)[1].events:
            if isinstance(each, Evidence):
                attempts = ledger.parse((run / each.ledger).read_bytes().splitlines(keepends=True)).attempts
                seconds = checkers.outage(attempts, (each.acted[0].broke, each.windows[0][1]), each.load)
                found.setdefault(each.case, []).append(seconds or 0)
    return found


# --- the benchmark ----------------------------------------------------------------------------------------------------


class _Bench(msgspec.Struct):
    day: str
    environment: dict
    figures: list[BenchFigure]


def _bench(part: str = "") -> _Bench | None:
    """Return the kept run of `make bench`, or of a part of it; None while none is kept."""
    file = BENCH.with_stem(f"{BENCH.stem}-{part}") if part else BENCH
    return msgspec.json.decode(file.read_bytes(), type=_Bench) if file.is_file() else None


def bench(part: str = "") -> str:
    """Return the table of docs/project.md; nothing while no run is kept."""
    kept = _bench(part)
    return table(("figure", "median", "95 % of the mean", "goal", "met"), map(bench_row, kept.figures)) if kept else ""


def bench_row(each: BenchFigure) -> tuple[str, ...]:
    unit = f" {each.unit}" if each.unit else ""
    interval = "–" if each.interval is None else f"{digits(each.interval[0])} to {digits(each.interval[1])}"
    met = {True: "yes", False: "**no**", None: ""}[each.met]
    goal = "–" if each.goal is None else f"≤ {digits(each.goal)}{unit}"
    return each.what, f"{digits(each.value)}{unit}", interval, goal, met


def bench_machine(part: str = "") -> str:
    """Return the machine of that run, and the day."""
    kept = _bench(part)
    if not kept:
        return ""
    host = kept.environment
    memory = round(host["memory_mib"] / 1024)
    loop = f" A loop of the harness took {host['loop_us']:.0f} us." if "loop_us" in host else ""
    said = f"{host['system']}, {host['cpus']} CPUs, {memory} GiB, kernel {host['kernel']}; {kept.day}.{loop}"
    return textwrap.fill(said, WIDTH) + "\n"


def bench_loop_us() -> float | None:
    """Return the time of a loop on the machine of that run, in microseconds; None if it was not recorded."""
    kept = _bench()
    return kept.environment.get("loop_us") if kept else None


MAKERS: dict[str, Callable[..., str]] = {
    "first_lines": first_lines,
    "drbd_states": drbd_states,
    "drill": drill,
    "claims": claims,
    "figures": figures,
    "anomalies": kept_anomalies.anomalies,
    "prices": kept_anomalies.prices,
    "managers": kept_managers.managers,
    "appliers": kept_rates.appliers,
    "protocols": kept_rates.protocols,
    "rates": kept_rates.rates,
    "answer": answer,
    "effects": effects,
    "disk_use": disk_use,
    "published": published,
    "topologies": topologies,
    "compare": compare,
    "history": history,
    "predictions": predictions,
    "bench": bench,
    "bench_machine": bench_machine,
    "noise_limits": kept_noise.noise_limits,
}
