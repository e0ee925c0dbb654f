"""The first lines of a report: the answer in one or two sentences made from the verdicts, and what to distrust."""

from collections import Counter
from collections.abc import Iterator, Sequence

from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.model.drill.drill_result import FigureJudgement
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.report import drilled, wording
from replication_lab.report.rows import DrillRow, DrillsSummary, ExperimentSummary, Summary

# At most this many claims are named in an answer; the table below has all of them.
NAMED = 2


def answer(summary: Summary) -> list[str]:
    """Return the answer, a paragraph each."""
    if isinstance(summary, DrillsSummary):
        return list(_of_drills(summary.drills))
    told = [*_effects(summary), *_drilled(summary)]
    return told or [*_counted(summary.claims), *_named(summary.claims, len(summary.engines) > 1)]


# --- experiments ------------------------------------------------------------------------------------------------------


def _effects(summary: ExperimentSummary) -> Iterator[str]:
    for effect in summary.effects:
        under = f"With {effect.common}: " if effect.common else ""
        yield sentence(f"{under}{effect.sentence}")


def _drilled(summary: ExperimentSummary) -> Iterator[str]:
    for row in summary.drilled:
        if row.known:
            yield sentence(
                f"{row.case}: {drilled.lost(row)} acknowledged {_rows(row.lost.high if row.lost else 0)} lost, "
                f"{drilled.without_service(row)} s without service"
            )
        else:
            yield sentence(f"{row.case}: the loss is unknown: {row.not_proved[0]}")


def _rows(count: float) -> str:
    return "row" if count == 1 else "rows"


def _counted(judged: Sequence[Judgement]) -> Iterator[str]:
    """Yield how many claims have which verdict, as a sentence."""
    if not judged:
        yield "Nothing was judged."
        return
    counts = Counter(wording.tone(row) for row in judged)
    whole = len(judged)
    if counts["HOLDS"] == whole:
        yield f"All {whole} claims hold." if whole > 1 else "The claim holds."
        return
    parts = [f"{counts['HOLDS']} of {whole} claims hold"]
    parts += [f"{counts['KNOWN']} {_be(counts['KNOWN'])} refuted, as expected"] if counts["KNOWN"] else []
    changed = [row for row in judged if row.changed]
    parts += [f"{len(changed)} {'has' if len(changed) == 1 else 'have'} an unexpected verdict"] if changed else []
    parts += [f"{counts['UNKNOWN']} could not be decided"] if counts["UNKNOWN"] else []
    yield sentence(", ".join(parts))


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _named(claims: Sequence[ClaimJudgement], several: bool) -> Iterator[str]:
    """Yield the claims that a reader should know first: the unexpected ones, else those refuted, else undecided."""
    for word, chosen in (
        ("Not as expected", [row for row in claims if row.changed]),
        ("Refuted", [row for row in claims if wording.tone(row) == "KNOWN"]),
        ("Undecided", [row for row in claims if row.verdict is Verdict.UNKNOWN]),
        ("For example", [row for row in claims if row.verdict is Verdict.HOLDS]),
    ):
        if chosen:
            told = "; ".join(_claim(row, several) for row in chosen[:NAMED])
            more = f"; and {len(chosen) - NAMED} more" if len(chosen) > NAMED and word != "For example" else ""
            yield sentence(f"{word}: {told}{more}")
            return


def _claim(row: ClaimJudgement, several: bool) -> str:
    where = f" on {row.engine}" if several else ""
    found = f": measured {wording.measured(row)}" if row.interval else f": {row.reason}"
    return f"“{row.sentence}”{where}{found}"


def sentence(told: str) -> str:
    """Return a text as a sentence, with a capital letter and a full stop."""
    told = told.strip()
    # A setting keeps its name: topology=galera.
    first = told if "=" in told.split(" ")[0] else told[:1].upper() + told[1:]
    return first + ("" if told.endswith((".", "?", "!")) else ".")


# --- drills -----------------------------------------------------------------------------------------------------------


def _of_drills(drills: Sequence[DrillRow]) -> Iterator[str]:
    known = [drill for drill in drills if is_known(drill)]
    if not known:
        yield "No drill could be evaluated."
        return
    losing = [drill for drill in known if drill.figures.get("lost")]
    named = ", ".join(map(_loss, losing))
    if not losing:
        yield "No acknowledged row was lost" + (f" in any of {len(known)} drills." if len(known) > 1 else ".")
    elif len(losing) == len(known):
        yield sentence(f"acknowledged rows were lost{' in each drill' if len(known) > 1 else ''}: {named}")
    else:
        yield sentence(
            f"no acknowledged row was lost in {len(known) - len(losing)} of {len(known)} drills; lost: {named}"
        )
    longest = max(known, key=lambda drill: _seconds(drill, "stall_s"))
    if _seconds(longest, "stall_s"):
        yield sentence(
            f"the longest time without an acknowledged write was {_seconds(longest, 'stall_s'):.1f} s, "
            f"in {longest.name}"
        )
    if len(known) < len(drills):
        lacking = [drill.name for drill in drills if not is_known(drill)]
        yield sentence(f"not evaluated: {', '.join(lacking)}")


def is_known(drill: DrillRow) -> bool:
    """Return whether the drill's figures can be trusted."""
    return not drill.doubts and "lost" in drill.figures


def _loss(drill: DrillRow) -> str:
    lost = int(_seconds(drill, "lost"))
    return f"{lost} {_rows(lost)} ({_seconds(drill, 'rpo_s'):.2g} s of writes) in {drill.name}{_expected(drill)}"


def _expected(drill: DrillRow) -> str:
    about = [row for row in drill.expectations if row.figure == "lost"]
    return ", as expected" if about and not any(row.changed for row in about) else ""


def _seconds(drill: DrillRow, figure: str) -> float:
    found = drill.figures.get(figure, 0.0)
    return 0.0 if isinstance(found, str) else float(found)


def marks(expectations: Sequence[FigureJudgement]) -> Counter[str]:
    """Return how many expectations have each tone."""
    return Counter(wording.tone(row) for row in expectations)


# --- what to distrust -------------------------------------------------------------------------------------------------


def distrust(summary: Summary) -> list[str]:
    """Return the reasons to doubt the figures, the gravest first."""
    told = [*wording.warnings(summary)]
    if isinstance(summary, DrillsSummary):
        told += [f"{drill.name}: {doubt}" for drill in summary.drills for doubt in drill.doubts]
    else:
        told += [f"{case.engine}, {case.name}: {_doubts(case.doubts)}" for case in summary.cases if case.doubts]
    return list(dict.fromkeys(told))


def _doubts(doubts: Sequence[str]) -> str:
    return doubts[0] + (f"; and {len(doubts) - 1} more" if len(doubts) > 1 else "")


def proved(summary: Summary) -> str:
    """Return what speaks for the figures: faults that were seen to act, and measurements on a quiet machine."""
    if isinstance(summary, DrillsSummary):
        proofs = [proof for drill in summary.drills for acted in drill.acted for proof in acted.proofs]
        return sentence(
            f"{sum(proof.ok for proof in proofs)} of {len(proofs)} proofs of faults and recoveries succeeded"
        )
    noise = summary.environment.noise
    parts = [f"{noise.measurements - noise.noisy} of {noise.measurements} measurements were made on a quiet machine"]
    if summary.faults:
        seen = sum(fault.seen for fault in summary.faults)
        parts.insert(0, f"{seen} of {len(summary.faults)} network conditions were confirmed by measurement")
    return sentence(", ".join(parts))
