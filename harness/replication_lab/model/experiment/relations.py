"""Relations: what a claim states about quantities, decided from the record.

A relation decides by an interval that lies inside or outside its bounds; anything between is UNKNOWN. Its method
`decide` gets the judgement of the claim while it is still UNKNOWN, and returns it with what it found.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import Interval, Plan, about, highest_share
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record

if TYPE_CHECKING:  # a quantity makes its relations
    from replication_lab.model.experiment.quantities import Quantity, Total

# A reason names at most this many noisy measurements.
SHOWN = 3
# Before the fourth round the spread is too uncertain to give up a claim.
FEWEST_TO_GIVE_UP = 4
# An engine and a case that is measured on it.
Place = tuple[str, str]


class ReadsPlaces:
    """What is known of a relation by the places that it reads, in their order; an empty engine is the judged one."""

    @property
    def places(self) -> Iterable[Place]:
        raise NotImplementedError

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case for _, case in self.places))

    @property
    def references(self) -> frozenset[str]:
        """The engines that serve as references in a comparison."""
        return frozenset(engine for engine, _ in self.places if engine)

    def measured_on(self, engine: str) -> tuple[Place, ...]:
        """Return the (engine, case) of all figures that are read for a claim about `engine`."""
        return tuple(dict.fromkeys((named or engine, case) for named, case in self.places))


@dataclass(frozen=True)
class Bounds(ReadsPlaces):
    """A quantity lies between `low` and `high` (either may be open)."""

    quantity: "Quantity"
    low: float = -math.inf
    high: float = math.inf

    def __bool__(self) -> bool:
        """Refuse `0.8 <= quantity <= 1.2`, of which Python would keep only the second half."""
        raise LabError(
            f"a claim has two bounds in a row, {self.text} and another one",
            "both bounds by `between`",
            "(throughput(a) / throughput(b)).between(0.8, 1.2)",
        )

    @property
    def places(self) -> Iterable[Place]:
        return [(figure.engine or "", figure.case) for figure in self.quantity.figures]

    @property
    def unit(self) -> str:
        return self.quantity.unit

    @property
    def text(self) -> str:
        return f"{self.quantity.label} {self._limits}"

    def _bounds(self, _estimate: float) -> tuple[float, float]:
        """Return what the interval must lie between, by its estimate; either may be infinite."""
        return self.low, self.high

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        """Return the measurements that decide: the quiet ones."""
        return [m for at, case in self.measured_on(engine) for m in record.quiet(at, case).values()]

    def decide(self, undecided: ClaimJudgement, record: Record, plan: Plan) -> ClaimJudgement:
        engine = undecided.engine
        values = self.quantity.series(record, engine)
        undecided = replace(undecided, rounds=len(values))
        if why_not := self._why_not_decidable(values, record, engine, plan):
            given_up = self._cannot_be_decided(values, record, engine, plan)
            return replace(undecided, reason=why_not, given_up=given_up)
        interval = self.quantity.interval(record, engine, self._level(plan))
        verdict = self._compare(interval)
        least, most = (bound if math.isfinite(bound) else None for bound in self._bounds(interval.estimate))
        reason = self._reason(verdict, interval)
        found = replace(undecided, measured=interval.estimate, interval=interval, least=least, most=most)
        if verdict is not Verdict.UNKNOWN:
            return replace(found, verdict=verdict, reason=reason)
        needed = interval.rounds_until(self._decisive_half(interval))
        reason = f"{reason}; at this spread it would take {about(needed)} rounds"
        return replace(found, reason=reason, rounds_needed=needed, given_up=self._is_hopeless(interval, plan))

    def _why_not_decidable(self, values: dict[int, float], record: Record, engine: str, plan: Plan) -> str:
        """Return why these values by round decide nothing yet; empty if they may."""
        label, places = self.quantity.label, self.measured_on(engine)
        if failed := [str(n) for n, value in values.items() if not math.isfinite(value)]:
            return f"{label} could not be computed in round {', '.join(failed)}"
        if not values:
            for part in self.quantity.figures:
                if not part.series(record, engine):
                    return _not_taken(part.case, part.name, record, part.engine or engine)
            return f"no round has all of {label}" + _noise(places, record)
        if len(values) < plan.min_rounds:
            found = f"only {len(values)} quiet rounds of {label}; {plan.min_rounds} are needed"
            return found + _noise(places, record)
        if len(values) > plan.max_rounds:
            planned = f"the error budget covers only the {plan.max_rounds} planned ones"
            return f"{len(values)} rounds were measured, and {planned}"
        return ""

    def _cannot_be_decided(self, values: dict[int, float], record: Record, engine: str, plan: Plan) -> bool:
        """Return whether more rounds change nothing: one of them failed, or too few that may be quiet are left."""
        if any(not math.isfinite(value) for value in values.values()):
            return True
        begun = max((m.round for at, case in self.measured_on(engine) for m in record.of(at, case)), default=0)
        return len(values) + plan.max_rounds - begun < plan.min_rounds

    def _level(self, plan: Plan) -> float:
        return plan.level

    def _is_hopeless(self, interval: Interval, plan: Plan) -> bool:
        """Return whether even the last planned round is not expected to decide: its half width is twice the limit.

        Giving up only turns verdicts into UNKNOWN, so it adds no risk. docs/statistics.md shows the rounds that it
        saves.
        """
        half = self._decisive_half(interval)
        may_go_on = FEWEST_TO_GIVE_UP <= interval.n < plan.max_rounds
        return may_go_on and half < interval.half_after(plan.max_rounds) / 2

    def _decisive_half(self, interval: Interval) -> float:
        """Return half the width with which the interval would decide, if its estimate stayed the same."""
        return min(interval.distance(bound) for bound in self._bounds(interval.estimate) if math.isfinite(bound))

    def _compare(self, interval: Interval) -> Verdict:
        low, high = self._bounds(interval.estimate)
        if low <= interval.low and interval.high <= high:
            return Verdict.HOLDS
        if interval.high < low or high < interval.low:
            return Verdict.REFUTED
        return Verdict.UNKNOWN

    def _reason(self, verdict: Verdict, interval: Interval) -> str:
        found = f"{interval.low:.4g}–{interval.high:.4g}"
        if verdict is Verdict.UNKNOWN:
            return f"undecided after {interval.n} rounds: {found} {self._straddled(interval)}"
        compared = "is" if verdict is Verdict.HOLDS else "is not"
        return f"decided after {interval.n} rounds: {found} {compared} {self._limits}"

    def _straddled(self, interval: Interval) -> str:
        return "straddles " + " and ".join(
            f"{b:g}" for b in (self.low, self.high) if interval.low <= b <= interval.high
        )

    @property
    def _limits(self) -> str:
        if math.isinf(self.high):
            return f"≥ {self.low:g}"
        return f"≤ {self.high:g}" if math.isinf(self.low) else f"in {self.low:g}–{self.high:g}"


@dataclass(frozen=True)
class KnownWithin(Bounds):
    """A quantity is known: both ends of its interval are within this share of its estimate.

    Never REFUTED, since the interval holds its estimate.
    """

    margin: float = 0.1

    def _bounds(self, estimate: float) -> tuple[float, float]:
        most = self.margin * abs(estimate)
        return estimate - most, estimate + most

    def _level(self, plan: Plan) -> float:
        return plan.level_of_estimate

    def _straddled(self, interval: Interval) -> str:
        return f"is wider than ±{self.margin:.0%} of {interval.estimate:.4g}"

    @property
    def _limits(self) -> str:
        return f"known within ±{self.margin:.0%}"


@dataclass(frozen=True)
class _OfTotal(ReadsPlaces):
    """A relation of one total: the occurrences of an event in one case."""

    count: "Total"

    unit = ""

    @property
    def places(self) -> Iterable[Place]:
        return [("", self.count.case)]

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return self.count.counted(record, engine)


@dataclass(frozen=True)
class NoneSeen(_OfTotal):
    """HOLDS when nothing was seen in enough trials, REFUTED by the first counterexample."""

    trials: str
    at_least: int

    @property
    def text(self) -> str:
        return f"{self.count.name}({self.count.case}) = 0 in ≥ {self.at_least} {self.trials}"

    def decide(self, undecided: ClaimJudgement, record: Record, plan: Plan) -> ClaimJudgement:
        seen, rounds = self.count.sum(record, undecided.engine)
        trials, _ = self.count.sum(record, undecided.engine, self.trials)
        if not rounds:
            return replace(undecided, reason=_not_taken(self.count.case, self.count.name, record, undecided.engine))
        undecided = replace(undecided, measured=seen, rounds=rounds)
        if seen > 0:
            return replace(
                undecided,
                verdict=Verdict.REFUTED,
                reason=f"{seen} in {trials} {self.trials}{self.count.example(record, undecided.engine)}",
            )
        if trials < self.at_least:
            return self._too_few(undecided, trials, plan)
        share = f"with 95 % confidence, at most {highest_share(trials):.2g} of all trials are counterexamples"
        return replace(undecided, verdict=Verdict.HOLDS, reason=f"0 in {trials} {self.trials}; {share}")

    def _too_few(self, undecided: ClaimJudgement, trials: int, plan: Plan) -> ClaimJudgement:
        """Return UNKNOWN. It is given up if twice as many trials a round would be too few in the planned rounds."""
        rounds = undecided.rounds
        reason = f"no counterexample found, but only {trials} {self.trials} were made; {self.at_least} are needed"
        hopeless = 2 * trials * plan.max_rounds < self.at_least * rounds
        given_up = hopeless and FEWEST_TO_GIVE_UP <= rounds < plan.max_rounds
        if not trials:
            return replace(undecided, reason=reason, given_up=given_up)
        needed = math.ceil(self.at_least * rounds / trials)
        reason = f"{reason}; with as many in each round it would take {about(needed)} rounds"
        return replace(undecided, reason=reason, given_up=given_up, rounds_needed=needed)


@dataclass(frozen=True)
class SomeSeen(_OfTotal):
    """HOLDS by the first example, else UNKNOWN: the absence of an example proves nothing."""

    @property
    def text(self) -> str:
        return f"{self.count.name}({self.count.case}) > 0"

    def decide(self, undecided: ClaimJudgement, record: Record, _plan: Plan) -> ClaimJudgement:
        seen, rounds = self.count.sum(record, undecided.engine)
        undecided = replace(undecided, measured=seen if rounds else None, rounds=rounds)
        if seen > 0:
            return replace(undecided, verdict=Verdict.HOLDS, reason=f"{seen} found in {rounds} rounds")
        if not rounds:
            return replace(undecided, reason=_not_taken(self.count.case, self.count.name, record, undecided.engine))
        return replace(undecided, reason=f"no example found in {rounds} rounds")


def _not_taken(case: str, name: str, record: Record, engine: str) -> str:
    taken = record.of(engine, case)
    if not taken:
        return f"{case} was not measured"
    if any(m.counts for m in taken) and not any(name in m.figures for m in taken):
        recorded = sorted({known for m in taken for known in m.figures})
        return f"{case} has no figure {name}; recorded were {', '.join(recorded) or 'none'}"
    return f"no quiet round of {case}" + _noise([(engine, case)], record)


def _noise(places: Iterable[Place], record: Record) -> str:
    noisy = [
        f"{case}, round {m.round}: {m.disturbed}"
        for engine, case in places
        for m in record.of(engine, case)
        if m.disturbed
    ]
    rest = f"; and {len(noisy) - SHOWN} more" if len(noisy) > SHOWN else ""
    return f" ({'; '.join(noisy[:SHOWN])}{rest})" if noisy else ""
