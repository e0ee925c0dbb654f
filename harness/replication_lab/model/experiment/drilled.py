"""Claims about the drills of a user's question: the rows lost, and the time without service, in the worst of them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from replication_lab.model.core.statistics import Plan
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import CaseDrilled, Result, noisiest, not_proved, possible
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.relations import Place, ReadsPlaces
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record


def drilled(record: Record, engine: str, case: str) -> dict[int, CaseDrilled]:
    """Return the drills of a case, by run."""
    found = [each for each in record.events if isinstance(each, CaseDrilled)]
    return {each.run: each for each in found if (each.engine, each.case) == (engine, case)}


def gaps(record: Record, engine: str, case: str, runs: int) -> Iterator[str]:
    """Yield the reasons why runs of a case's drill are missing or not proved."""
    found = drilled(record, engine, case)
    for run in range(1, runs + 1):
        if run not in found:
            yield f"drill {run} of {runs} was not run{f': {record.stopped}' if record.stopped else ''}"
            continue
        yield from (f"drill {run} of {runs}: {why}" for why in not_proved(found[run].result))


@dataclass(frozen=True)
class KnownInDrills(ReadsPlaces):
    """The relation that a figure (lost, rto_s) is known in all runs of a case's drill.

    UNKNOWN if a run is missing or not proved. More rounds of load cannot change it, so it is always settled.
    """

    case: str
    figure: str
    runs: int

    @property
    def unit(self) -> str:
        return "s" if self.figure.endswith("_s") else ""

    @property
    def places(self) -> Iterable[Place]:
        return [("", self.case)]

    @property
    def text(self) -> str:
        return f"{self.figure}({self.case}) known in {self.runs} drills"

    def counted(self, _record: Record, _engine: str) -> list[Measurement]:
        """Return an empty list: the claim reads no measurement of a load, and drills have their own doubts."""
        return []

    def decide(self, undecided: ClaimJudgement, record: Record, _plan: Plan) -> ClaimJudgement:
        engine, undecided = undecided.engine, replace(undecided, settled=True)
        missing = list(gaps(record, engine, self.case, self.runs))
        if missing:
            return replace(undecided, reason="; ".join(missing))
        results = [each.result for _, each in sorted(drilled(record, engine, self.case).items())]
        values = [float(result.figures[self.figure]) for result in results]
        held, reason, measured = self._compare(values)
        verdict = Verdict.HOLDS if held else Verdict.REFUTED
        if noise := self._disturbance(results, values, held):
            verdict, reason = Verdict.UNKNOWN, f"{reason}, but on a noisy machine: {noise}"
        return replace(undecided, verdict=verdict, reason=reason, measured=measured, rounds=len(values))

    def _compare(self, values: list[float]) -> tuple[bool, str, float]:
        """Return whether the claim is true of these values, why, and the value that decides it."""
        return True, f"{min(values):g} to {max(values):g} in {len(values)} drills", max(values)

    def _disturbance(self, results: Sequence[Result], values: list[float], held: bool) -> str:
        """Return why the verdict may be another one on a quiet machine; empty if it is certain."""
        evidence = [result.evidence for result in results if result.evidence]
        ranges = [possible(self.figure, value, each) for value, each in zip(values, evidence, strict=True)]
        if self._is_certain(ranges, held):
            return ""
        return next(str(noisy) for each in evidence if (noisy := noisiest(self.figure, each)))

    def _is_certain(self, ranges: Sequence[tuple[float, float]], _held: bool) -> bool:
        # A time that others lengthened is not known.
        return all(low == high for low, high in ranges)


@dataclass(frozen=True)
class WorstOfDrills(KnownInDrills):
    """The relation that the figure is between `low` and `high` in the worst run, and so in every run."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def text(self) -> str:
        bound = f"≥ {self.low:g}" if math.isinf(self.high) else f"≤ {self.high:g}"
        return f"{self.figure}({self.case}) {bound} in each of {self.runs} drills"

    def _compare(self, values: list[float]) -> tuple[bool, str, float]:
        worst = min(values) if math.isinf(self.high) else max(values)
        reason = f"the worst of {len(values)} drills has {worst:g} ({', '.join(f'{one:g}' for one in values)})"
        return self.low <= worst <= self.high, reason, worst

    def _is_certain(self, ranges: Sequence[tuple[float, float]], held: bool) -> bool:
        return all(self._compare(list(ends))[0] == held for ends in zip(*ranges, strict=True))
