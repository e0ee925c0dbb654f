"""The first lines of a report: the answer in a few sentences (answers.j2 filled in), and what to distrust."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from replication_lab.model.core.verdict import Judgement
from replication_lab.report import drilled, templates, wording
from replication_lab.report.rows import DrillRow, DrillsSummary, Summary


def answer(summary: Summary) -> list[str]:
    """Return the answer, a paragraph each."""
    if isinstance(summary, DrillsSummary):
        known = [drill for drill in summary.drills if is_known(drill)]
        losing = [drill for drill in known if drill.figures.get("lost")]
        longest = max(known, key=lambda drill: _seconds(drill, "stall_s"), default=None)
        told = _macros().drills(summary.drills, known, losing, longest)
    else:
        told = _macros().experiment(summary)
    return [sentence(line) for line in templates.lines_of(told)]


def _macros() -> Any:
    return templates.macros("answers.j2", drilled=drilled, wording=wording, seconds=_seconds, tones=marks)


def sentence(told: str) -> str:
    """Return a text as a sentence, with a capital letter and a full stop."""
    # A setting keeps its name: topology=galera.
    first = told if "=" in told.split(" ", maxsplit=1)[0] else told[:1].upper() + told[1:]
    return first + ("" if told.endswith((".", "?", "!")) else ".")


def is_known(drill: DrillRow) -> bool:
    """Return whether the drill's figures can be trusted."""
    return not drill.doubts and "lost" in drill.figures


def _seconds(drill: DrillRow, figure: str) -> float:
    found = drill.figures.get(figure, 0.0)
    return 0.0 if isinstance(found, str) else float(found)


def marks(judged: Sequence[Judgement]) -> Counter[str]:
    """Return how many verdicts have each tone."""
    return Counter(map(wording.tone, judged))


def distrust(summary: Summary) -> list[str]:
    """Return the reasons to doubt the figures, the gravest first."""
    told = wording.warnings(summary)
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
