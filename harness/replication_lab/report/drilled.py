"""What the drills of a user's question found in each case, and what was not verified."""

from replication_lab.model.core.statistics import highest_share
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.drill_result import Result, missing_rows
from replication_lab.model.experiment.drilled import drilled, gaps
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.question.question import Question
from replication_lab.model.record.record import Record
from replication_lab.report import templates, wording
from replication_lab.report.rows import DrilledRow, DrillRow, RangeRow

NOT_VERIFIED = "not verified"
ROWS, TRANSACTIONS = "rows of the drill's own clients", "transactions of the workload"


def drilled_rows(experiment: Experiment, record: Record) -> list[DrilledRow]:
    """Return a row for each case of a question that names a drill, on each engine; empty for other experiments."""
    asked = experiment.asked
    if asked is None or not asked.drill:
        return []
    rows = []
    for engine in record.engines:
        lab = record.lab(engine)
        rows += [
            _row(asked, record, engine, case.name, experiment.lab_of(case).topology)
            for case in experiment.cases
            if experiment.lab_of(case).engine in ("", engine) and not (lab and case.name in lab.not_applicable)
        ]
    return rows


def _row(asked: Question, record: Record, engine: str, case: str, topology: str) -> DrilledRow:
    runs, found = asked.drills_of_a_case, drilled(record, engine, case)
    results = [found[run].result for run in sorted(found)]
    missing = list(gaps(record, engine, case, runs))
    drill = results[0].drill if results else None
    return DrilledRow(
        engine=engine,
        case=case,
        topology=topology,
        asked=asked.drill,
        about=drill.about if drill else "",
        takes_over=_takes_over(drill) if drill else "",
        counts=TRANSACTIONS if asked.ledger else ROWS,
        runs=runs,
        known=not missing,
        lost=None if missing else _range(results, "lost"),
        rpo_s=None if missing else _range(results, "rpo_s"),
        rto_s=None if missing else _range(results, "rto_s"),
        outage_s=None if missing else _range(results, "outage_s"),
        not_proved=missing,
        claims=[f"lost:{case}", f"rto_s:{case}"],
        drills=[DrillRow.of(result) for result in results],
    )


def _takes_over(drill: Drill) -> str:
    """Return what decides that another node takes over, and when."""
    step = next((step for step in drill.steps if step.failover), None)
    if planned := next((spec.targets[0] for spec in drill.fault_specs if spec.fault == "switchover"), ""):
        return f"a planned switchover makes {planned} accept writes"
    if step is None:
        return "the servers decide by themselves which node takes over"
    if drill.manager:
        return "the manager of the case lets a replica take over, or does not"
    if drill.initial_primary:
        return f"the cluster manager moves the service to {step.promotes}"
    return f"a failover promotes {step.promotes} {step.seconds:g} s after the fault began"


def _range(results: list[Result], figure: str) -> RangeRow | None:
    values = [float(result.figures[figure]) for result in results if figure in result.figures]
    return RangeRow(low=min(values), high=max(values), n=len(values)) if values else None


def lost(row: DrilledRow) -> str:
    """Return "0", or "12–31 (0.04 s)": the rows lost in a drill, and the most seconds of writes that they are."""
    if row.lost is None:
        return NOT_VERIFIED
    seconds = f" ({row.rpo_s.high:.2f} s)" if row.rpo_s and row.rpo_s.high else ""
    return f"{_from_to(row.lost, '.0f')}{seconds}"


def without_service(row: DrilledRow) -> str:
    """Return "2.0–2.1 (1.9–2.0)": the seconds from the fault until a write was acknowledged, and of the outage."""
    if row.rto_s is None:
        return NOT_VERIFIED
    seen = f" ({_from_to(row.outage_s, '.1f')})" if row.outage_s else ""
    return f"{_from_to(row.rto_s, '.1f')}{seen}"


def _from_to(found: RangeRow, form: str) -> str:
    low, high = format(found.low, form), format(found.high, form)
    return low if low == high else f"{low}–{high}"


def notes(rows: list[DrilledRow]) -> list[str]:
    """Return the notes below the table: which drills were run, how a node took over, and what was not verified."""
    if not rows:
        return []
    return templates.lines_of(
        templates.macros("drilled.j2").notes(rows, highest_share(rows[0].runs), missing_rows, wording.CHECKED)
    )
