"""The evidence behind the figures of an experiment: network conditions and states, requested and measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from replication_lab.model.core.groups import grouped
from replication_lab.model.core.proof import Proof
from replication_lab.model.record.record import Record
from replication_lab.report import strips, wording
from replication_lab.report.rows import ExperimentSummary, FaultRow
from replication_lab.report.svg import Scale

SHOWN = 3


@dataclass(frozen=True)
class SeenCondition:
    """A toxic in all measurements of a case, on all its links: what was requested and measured, and if it was seen."""

    first: FaultRow
    links: list[str]
    taken: int
    seen: int
    before: float | None
    during: tuple[float, float, float] | None
    after: float | None
    why: list[str]

    @property
    def told(self) -> str:
        """Return "85.2 (84.6–94.1)": the median, the least and the most during the load."""
        if self.during is None:
            return "–"
        least, middle, most = map(wording.number, self.during)
        return f"{middle} ({least}–{most})"


def conditions(summary: ExperimentSummary) -> list[SeenCondition]:
    """Return the toxics of the run, one for each engine and case; the links of a cluster are told together."""
    groups = grouped(((row.engine, row.case, row.toxic, row.unit, row.asked), row) for row in summary.faults)
    return [_condition(rows) for rows in groups.values()]


def _condition(rows: Sequence[FaultRow]) -> SeenCondition:
    spreads = [row.during for row in rows if row.during]
    return SeenCondition(
        first=rows[0],
        links=list(dict.fromkeys(row.link for row in rows)),
        taken=len(rows),
        seen=sum(row.seen for row in rows),
        before=_median([row.before for row in rows]),
        during=(min(s.min for s in spreads), median(s.p50 for s in spreads), max(s.max for s in spreads))
        if spreads
        else None,
        after=_median([row.after for row in rows]),
        why=[f"{row.link}, round {row.round}: {row.why or 'not seen'}" for row in rows if not row.seen],
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def scale(found: Sequence[SeenCondition]) -> Scale | None:
    """Return the scale of the round trips; a share of lost packets is not on it."""
    trips = [each for each in found if each.first.unit == "ms"]
    return strips.scale([value for each in trips for value in (each.first.asked, *(each.during or ()))])


def picture(found: SeenCondition, on: Scale) -> str:
    """Return the requested figure as a stroke and the measured ones as a strip."""
    if found.during is None or found.first.unit != "ms":
        return ""
    least, middle, most = found.during
    asked = [found.first.asked] if found.first.asked else []
    told = f"requested {wording.number(found.first.asked)}, measured {found.told} {found.first.unit}"
    return strips.measured(asked, (least, middle, most), on, told)


@dataclass(frozen=True)
class ProvedState:
    """A proved state of a case over all its measurements."""

    engine: str
    case: str
    what: str
    expected: str
    found: list[str]
    taken: int
    ok: int


def states(record: Record) -> list[ProvedState]:
    """Return the proofs of the cases' states, one for each engine, case and thing that was proved."""
    groups = grouped(((m.engine, m.case, proof.what), proof) for m in record.measurements for proof in m.proofs)
    return [
        ProvedState(*of, proofs[0].expected, list(_distinct(proofs)), len(proofs), sum(proof.ok for proof in proofs))
        for of, proofs in groups.items()
    ]


def _distinct(proofs: Sequence[Proof]) -> Iterator[str]:
    """Yield what was found, failures first, each once and at most SHOWN."""
    found = list(dict.fromkeys(proof.found for proof in sorted(proofs, key=lambda proof: proof.ok)))
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        yield f"and {len(found) - SHOWN} more"
