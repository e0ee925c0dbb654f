"""The result of a drill: its figures and its verdicts, from its evidence and its ledger alone."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from replication_lab.model.core.event import Event
from replication_lab.model.core.verdict import Judgement, Verdict, exit_code
from replication_lab.model.drill import application, checkers
from replication_lab.model.drill.checkers import Figures, lost, together
from replication_lab.model.drill.drill import Drill, Expectation
from replication_lab.model.drill.evidence import Evidence, FaultEvidence, Looked, NoiseWhile, longest_queues
from replication_lab.model.drill.history import Attempt, Copy, Outcome, RowLook, numbers
from replication_lab.model.drill.managed import expected_of, of_manager
from replication_lab.model.drill.timeline import Phase, Timeline, phases, timeline
from replication_lab.model.drill.writable import TWO_WRITABLE, resolution, unresolved, without_unread

# An expectation of every drill: harness/replication_lab/drills/forbidden.yaml lists what no log may contain.
QUIET_LOGS = Expectation("no forbidden pattern in any server log", "forbidden", equals=0)

# One more of a drill after which the nodes did not become healthy, unless its file has one of that figure.
RECOVERED = Expectation("every node is healthy again after the fault", "recovered", equals=1)


class FigureJudgement(Judgement, frozen=True, kw_only=True):
    """The verdict of a drill's expectation: its figure, the bound, and the measured value."""

    figure: str
    bound: str
    measured: float | str | None


class Result(msgspec.Struct, frozen=True, dict=True):
    """One drill with its figures and verdicts."""

    drill: Drill
    figures: dict[str, float | str]
    judgements: list[FigureJudgement]
    doubts: list[str]
    evidence: Evidence | None = None
    timeline: Timeline | None = None
    phases: list[Phase] = []

    @property
    def ledger(self) -> str:
        """The name of the ledger's file beside the record; empty if the drill was not run."""
        return (self.evidence.ledger or f"ledger-{self.drill.name}.jsonl") if self.evidence else ""

    @cached_property
    def exit_code(self) -> int:
        return exit_code(self.judgements)


class CaseDrilled(Event, frozen=True, kw_only=True, tag="drilled"):
    """The result of one drill of a question, for one case. No record contains it: it is judged from the ledger."""

    engine: str
    case: str
    run: int
    result: Result


# The figures that a drill of a question measures. The bounds in the drill's file are for a bare link and its own
# clients only, so they do not apply.
ANSWERS = ("lost", "rto_s")
# What a manager did is an answer, too.
OF_ANSWERS = (*ANSWERS, "rpo_s", "outage_s", "not_failed_over", "false_failovers", TWO_WRITABLE)


def not_proved(result: Result) -> list[str]:
    """Return why a drill of a question proves nothing: doubts, failed checkers, expectations that do not hold.

    Expectations about the figures that the drill measures are ignored. All others must have their expected verdict,
    except that copies may differ if the difference is counted: `lost` then has the transactions whose rows they lack.
    """
    ignored = {*OF_ANSWERS, *(["diverged"] if any(missing_rows(result.figures)) else [])}
    wrong = [
        f"{each.sentence}: {each.reason}"
        for each in result.judgements
        if each.figure not in ignored and (each.changed or each.verdict is Verdict.UNKNOWN)
    ]
    lacking = [f"no figure {name}" for name in ANSWERS if name not in result.figures]
    return list(dict.fromkeys(result.doubts or [*wrong, *lacking]))


def judge(evidence: Evidence, history: Sequence[Attempt], looks: Sequence[RowLook] = (), damage: str = "") -> Result:
    """Judge a drill from its evidence and its ledger, nothing else; `damage` is why the ledger is not whole."""
    history = evidence.answered(history)
    rows, row_failures = checkers.rows(history, evidence.copies, evidence.counted_tables)
    service, service_failures = checkers.service(history, evidence.load, evidence.windows, evidence.injected)
    reads, read_failures = checkers.reads(history, looks, evidence.copies, evidence.mended)
    figures = {**rows, **service, **reads, **_of_nodes(evidence), **of_sources(evidence, history)}
    figures |= of_manager(evidence)
    figures |= application.figures(evidence.application, evidence.windows)
    figures, unread = without_unread(figures, evidence)
    if not evidence.copies and any(each.step.stays for each in evidence.acted):
        # No node takes writes: clients have no copy.
        row_failures = []
    failures = [*row_failures, *service_failures, *read_failures, *unread]
    doubts = [*evidence.doubts, *_unproved(evidence), *filter(None, [damage])]
    if not any(attempt.acknowledged for attempt in history):
        doubts.append("no statement was acknowledged at all")
    of_recovery = next((each for each in evidence.drill.expected if each.figure == RECOVERED.figure), RECOVERED)
    figures |= {RECOVERED.figure: int(not evidence.unrecovered)} if of_recovery is not RECOVERED else {}
    judgements = [
        _judge(each, figures, evidence, doubts, failures)
        for each in (*evidence.drill.expected, *expected_of(evidence), QUIET_LOGS)
        if not (evidence.unrecovered and each is of_recovery)
    ]
    judgements += [_is_refused(acted, doubts) for acted in evidence.acted if acted.step.is_refused]
    judgements += _upgraded(evidence, doubts)
    if evidence.unrecovered:
        judgements.append(_not_recovered(of_recovery, evidence, doubts))
    return Result(
        evidence.drill,
        figures,
        judgements,
        [*doubts, *failures],
        evidence,
        timeline(history, evidence.load, evidence.looked),
        phases(history, evidence.load, evidence.acted),
    )


def _is_refused(acted: FaultEvidence, doubts: list[str]) -> FigureJudgement:
    node = acted.step.promotes
    asked = Expectation(f"a failover to {node} is refused", "refused", equals=1)
    verdict = Verdict.UNKNOWN if doubts else Verdict.HOLDS if acted.refused else Verdict.REFUTED
    reason = doubts[0] if doubts else acted.refused or f"{node} was promoted"
    return _judgement(asked, verdict, int(bool(acted.refused)), reason)


def _upgraded(evidence: Evidence, doubts: list[str]) -> Iterator[FigureJudgement]:
    """Yield the verdict about each node that was to run another server, if the drill's file has none about it."""
    known = {each.figure for each in evidence.drill.expected}
    for acted in evidence.acted:
        for node, why in acted.upgrades.items():
            asked = Expectation(f"{node} runs the other server on its data", f"upgraded.{node}", equals=1)
            if asked.figure not in known:
                verdict = Verdict.UNKNOWN if doubts else Verdict.REFUTED if why else Verdict.HOLDS
                yield _judgement(asked, verdict, int(not why), doubts[0] if doubts else why or "it serves")


def _not_recovered(asked: Expectation, evidence: Evidence, doubts: list[str]) -> FigureJudgement:
    """Return the verdict that the nodes did not recover; only a quiet machine shows that it was not its slowness."""
    noisy = next((str(each) for each in evidence.noise if not each.noise.quiet), "")
    reason = doubts[0] if doubts else evidence.unrecovered + (f", but on a noisy machine: {noisy}" if noisy else "")
    return _judgement(asked, Verdict.UNKNOWN if doubts or noisy else Verdict.REFUTED, 0, reason)


def _unproved(evidence: Evidence) -> Iterator[str]:
    """Yield the reasons to doubt that each of the drill's faults acted: without that a figure shows nothing."""
    yield from evidence.failed_proofs
    yield from evidence.unproved([])
    yield from (f"{acted.step}: no proof that it took effect" for acted in evidence.acted if not acted.proofs)
    if len(evidence.acted) < len(evidence.drill.steps):
        yield f"only {len(evidence.acted)} of {len(evidence.drill.steps)} steps were carried out"


def not_done(drill: Drill, why: str) -> Result:
    """Return the result of a drill without evidence: each of its expectations is UNKNOWN."""
    return Result(drill, {}, [_judgement(each, Verdict.UNKNOWN, None, why) for each in drill.expected], [why])


def _of_nodes(evidence: Evidence) -> Figures:
    """Return the figures about nodes: their histories, their views just before the recovery, their return."""
    figures: Figures = {
        **evidence.counted,
        **evidence.compared,
        **evidence.harness,
        "forbidden": len(evidence.forbidden_lines),
    }
    if {"cert_failures", "bf_aborts"} <= set(evidence.counted):
        figures["conflicts"] = evidence.counted["cert_failures"] + evidence.counted["bf_aborts"]
    said = [*evidence.before.values(), *evidence.after.values()]
    if any(view.history for view in said) and not any(view.error for view in said):
        figures["histories"] = len({view.history for view in said})
    if evidence.writable:
        figures[TWO_WRITABLE] = together(evidence.writable)
    if evidence.promoted_s is not None:
        figures["promoted_s"] = evidence.promoted_s
    if counted := [done.lost for done in evidence.taken_over if done.lost is not None]:
        figures["lost_transactions"] = sum(counted)
    windows = evidence.windows or [evidence.load]
    figures |= longest_queues(one for one in evidence.looked if any(a <= one.at <= b for a, b in windows))
    for acted in evidence.acted:
        figures |= {f"upgraded.{node}": int(not why) for node, why in acted.upgrades.items()}
        if acted.change_s is not None:
            figures["change_s"] = round(acted.change_s, 3)
        if not (evidence.unrecovered or acted.step.stays):
            figures["redundancy_back_s"] = round(acted.whole - acted.healed, 3)
        for node, view in acted.views.items():
            if not view.error:
                figures[f"view.{node}"] = view.says
                figures[f"view_size.{node}"] = view.size
                if view.behind_s is not None:
                    figures[f"behind_s.{node}"] = view.behind_s
        figures |= _most_behind(acted, evidence.looked)
    for node, found in evidence.returns.items():
        figures[f"returned.{node}"] = found.by
        figures[f"synced_s.{node}"] = round(found.synced_s, 3)
    return figures


def _most_behind(acted: FaultEvidence, looked: list[Looked]) -> Figures:
    """Return the largest lag that each replica reported while the fault acted: an idle applier reports none."""
    began, ended = acted.window
    lags = [(node, view.behind_s) for node, view in acted.views.items()]
    lags += [(one.node, one.view.behind_s) for one in looked if began <= one.at <= ended]
    most: dict[str, int] = {}
    for node, lag in lags:
        if lag is not None:
            most[node] = max(lag, most.get(node, 0))
    return {f"most_behind_s.{node}": lag for node, lag in most.items()}


def _judge(
    asked: Expectation, figures: Figures, evidence: Evidence, doubts: list[str], failures: list[str]
) -> FigureJudgement:
    # An error that never occurred has no figure: it occurred 0 times.
    found = figures.get(asked.figure, 0 if ".error." in f".{asked.figure}" else None)
    if doubts:
        return _judgement(asked, Verdict.UNKNOWN, found, doubts[0])
    if found is None:
        why = next((failure for failure in failures if asked.figure in failure), f"no figure {asked.figure}")
        return _judgement(asked, Verdict.UNKNOWN, None, why)
    try:
        verdict = Verdict.HOLDS if asked.holds(found) else Verdict.REFUTED
    except TypeError:
        return _judgement(asked, Verdict.UNKNOWN, found, f"{found!r} cannot be compared with {asked.bound}")
    reason = "; ".join([f"{asked.figure} is {found}, expected {asked.bound}", *_details(asked, figures, evidence)])
    if unresolved(asked, found, evidence):
        return _judgement(asked, Verdict.UNKNOWN, found, reason)
    if noise := disturbance(asked, found, evidence):
        return _judgement(asked, Verdict.UNKNOWN, found, f"{reason}, but on a noisy machine: {noise}")
    return _judgement(asked, verdict, found, reason)


def _details(asked: Expectation, figures: Figures, evidence: Evidence) -> Iterator[str]:
    """Yield in which of the user's tables rows are missing, or copies differ, or how exactly a figure is known."""
    if asked.figure == TWO_WRITABLE and (said := resolution(evidence)):
        yield said
    if asked.figure == "lost":
        yield from missing_rows(figures)
    if asked.figure == "diverged":
        for node, tables in checkers.differing_tables(evidence.copies).items():
            yield f"{node} differs in {', '.join(tables)}"


def missing_rows(figures: Figures) -> Iterator[str]:
    """Yield the user's rows that a copy lacks although it has the ledger's row of their transactions, in words."""
    for name, many in figures.items():
        figure, _, place = name.partition(".")
        if figure == checkers.MISSING and isinstance(many, int) and many > 0:
            node, _, table = place.partition(".")
            yield f"{node} lacks {many} rows of {table} that its transactions inserted or deleted"


def _judgement(asked: Expectation, verdict: Verdict, found: float | str | None, reason: str) -> FigureJudgement:
    return FigureJudgement(
        sentence=asked.says,
        relation=f"{asked.figure} is {asked.bound}",
        verdict=verdict,
        reason=reason,
        expected=asked.expect,
        because=asked.because,
        figure=asked.figure,
        bound=asked.bound,
        measured=found,
    )


def of_sources(evidence: Evidence, history: Sequence[Attempt]) -> Figures:
    """Return the figures about source and replicas; none for other kinds of replication, and for older records."""
    if not any(acted.positions for acted in evidence.acted):
        return {}
    figures: Figures = {}
    for acted in evidence.acted:
        figures |= _of_positions(acted)
    if any(acted.errant for acted in evidence.acted):
        figures |= _errant(evidence.acted, history)
    if evidence.copies:
        figures["two_sources_s"] = round(two_sources_s(history, evidence.copies), 3)
    return figures


def _of_positions(acted: FaultEvidence) -> Figures:
    """Return what each replica had received and not applied before the recovery, and which had received the most."""
    figures: Figures = {}
    replicas = {node: found for node, found in acted.positions.items() if found.replicates}
    for node, found in replicas.items():
        figures[f"applier_error.{node}"] = found.error
        if found.unapplied is not None:
            figures[f"received_unapplied.{node}"] = found.unapplied
    known = {node: found.received for node, found in replicas.items() if found.received is not None}
    if known:
        # With semi-sync, the last acknowledgement came from one of these.
        figures["received_most"] = " ".join(sorted(node for node, many in known.items() if many == max(known.values())))
    return figures


def _errant(acted: Sequence[FaultEvidence], history: Sequence[Attempt]) -> Figures:
    """Return the rows that only replaced nodes had, by what their clients were told."""
    rows = {number for each in acted for ranges in each.errant.values() for number in numbers(ranges)}
    told = Counter(attempt.outcome for attempt in history if attempt.id in rows)
    acknowledged = told[Outcome.ACKNOWLEDGED]
    return {"errant": len(rows), "errant.acknowledged": acknowledged, "errant.unacknowledged": len(rows) - acknowledged}


def two_sources_s(history: Sequence[Attempt], copies: Sequence[Copy]) -> float:
    """Return the longest time in seconds in which two nodes acknowledged writes of which only the one's were kept.

    It is the time that the acknowledgements of lost rows on one node and of kept rows on another one have in common.
    """
    gone = lost(history, copies)
    spans: dict[tuple[str, bool], tuple[float, float]] = {}
    for attempt in history:
        if attempt.acknowledged:
            key = attempt.node, attempt.id in gone
            first, last = spans.get(key, (attempt.ended, attempt.ended))
            spans[key] = min(first, attempt.ended), max(last, attempt.ended)
    common = [
        min(one[1], other[1]) - max(one[0], other[0])
        for (node, is_gone), one in spans.items()
        for (another, is_other_gone), other in spans.items()
        if is_gone and not is_other_gone and node != another
    ]
    return max([0.0, *common])


RATIOS = ("latency_ratio", "throughput_ratio")
# The unit at the end of a figure's name, and how many of it are a second.
TIMES = {"_s": 1, "_ms": 1000}
APPLICATION = "app."
# What a manager does or leaves undone within some seconds: on a slow machine its checks fail, and its acts come late.
OF_MANAGERS = ("not_failed_over", "false_failovers", "left_to_do")


def noisiest(figure: str, evidence: Evidence) -> NoiseWhile | None:
    """Return the part of the load that a figure is about in which others used most of the CPUs; None if none did."""
    until = evidence.mended if figure.startswith(RATIOS) else math.inf
    noisy = [each for each in evidence.noise if not each.noise.quiet and each.end <= until]
    return max(noisy, key=lambda each: each.noise.foreign_cpu or 0.0, default=None)


def possible(figure: str, found: float, evidence: Evidence) -> tuple[float, float]:
    """Return the smallest and the largest value that a figure may have had on a quiet machine.

    Other programs only lengthen a time, and by no more than the load lasted. They can make a ratio of two rates or two
    latencies larger or smaller. What is counted happened, also on a noisy machine; but a manager decides by time, and
    fails by it.
    """
    if noisiest(figure, evidence) is None:
        return found, found
    if figure.startswith(RATIOS):
        return 0.0, math.inf
    if figure in OF_MANAGERS:
        return 0.0, found
    # A figure of a node ends with the node's name, one of the application with its unit.
    name = figure if figure.startswith(APPLICATION) else figure.partition(".")[0]
    begin, end = evidence.load
    for unit, of_a_second in TIMES.items():
        if name.endswith(unit):
            return max(found - (end - begin) * of_a_second, 0.0), found
    return found, found


def disturbance(asked: Expectation, found: float | str, evidence: Evidence) -> str:
    """Return why the verdict on an expectation may be another one on a quiet machine; empty if it is certain."""
    noisy = noisiest(asked.figure, evidence)
    if noisy is None or isinstance(found, str):
        return ""
    low, high = possible(asked.figure, found, evidence)
    if low == high and (asked.at_least is not None or asked.expect is Verdict.REFUTED):
        # Clients that others held up write less, so that less can be acknowledged, be on its way, or be lost.
        high = math.inf
    return "" if asked.holds(low) == asked.holds(found) == asked.holds(high) else str(noisy)
