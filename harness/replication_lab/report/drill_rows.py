"""The row of a drill's result, and the fields that every judgement's row has."""

from typing import Any

from replication_lab.model.core.verdict import Judgement
from replication_lab.model.drill.drill_result import Result
from replication_lab.report.rows import DrillRow, ExpectationRow


def row_of(result: Result) -> DrillRow:
    evidence = result.evidence
    return DrillRow(
        name=result.drill.name,
        about=result.drill.about,
        exit_code=result.exit_code,
        clients=result.drill.clients,
        seconds=evidence.load[1] if evidence else 0.0,
        figures=result.figures,
        expectations=[
            ExpectationRow(**of_any_judgement(each), figure=each.figure, bound=each.bound, measured=each.measured)
            for each in result.judgements
        ],
        doubts=result.doubts,
        acted=evidence.acted if evidence else [],
        returns=evidence.returns if evidence else {},
        forbidden=evidence.forbidden if evidence else [],
        ledger=result.ledger,
        phases=result.phases,
    )


def of_any_judgement(judgement: Judgement) -> dict[str, Any]:
    """Return the fields that the rows of all kinds of judgements share."""
    return {
        "sentence": judgement.sentence,
        "relation": judgement.relation,
        "verdict": judgement.verdict,
        "expected": judgement.expected.verdict,
        "changed": judgement.changed,
        "because": judgement.expected.because,
        "reason": judgement.reason,
    }
