"""The row of a drill's result."""

from replication_lab.model.drill.drill_result import Result
from replication_lab.report.rows import DrillRow


def row_of(result: Result) -> DrillRow:
    evidence = result.evidence
    return DrillRow(
        name=result.drill.name,
        about=result.drill.about,
        exit_code=result.exit_code,
        clients=result.drill.clients,
        seconds=evidence.load[1] if evidence else 0.0,
        figures=result.figures,
        expectations=result.judgements,
        doubts=result.doubts,
        acted=evidence.acted if evidence else [],
        returns=evidence.returns if evidence else {},
        forbidden=evidence.forbidden if evidence else [],
        ledger=result.ledger,
        phases=result.phases,
    )
