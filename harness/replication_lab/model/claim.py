"""Claims: a sentence, a relation over the record, and the verdict that it comes to.

A quantity names a figure of a case and yields it by round. A relation compares quantities and decides by an interval
that lies inside or outside its bounds; anything between, and anything doubtful, is UNKNOWN.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median
from typing import Any

from replication_lab.model.record import Measurement, Record
from replication_lab.model.statistics import (
    Interval,
    NoInterval,
    Plan,
    highest_share,
    interval_of_mean,
    interval_of_ratio,
)


class Verdict(StrEnum):
    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Finding:
    """What a relation came to. `settled`: more rounds cannot change it; `doubted`: something went wrong."""

    verdict: Verdict
    reason: str
    measured: float | None = None
    interval: Interval | None = None
    rounds: int = 0
    settled: bool = False
    doubted: bool = False


# An engine and a case that is measured on it.
Place = tuple[str, str]


# --- quantities -------------------------------------------------------------------------------------------------------


class Quantity:
    """Something with a `label`, a `unit`, the recorded `figures` it reads and a `series` of quiet values by round."""

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(figure.case for figure in self.figures))

    @property
    def references(self) -> frozenset[str]:
        """The engines that others are compared with."""
        return frozenset(figure.engine for figure in self.figures if figure.engine)

    def measured_on(self, engine: str) -> tuple[Place, ...]:
        """(engine, case) of all that is read for a claim about `engine`."""
        return tuple(dict.fromkeys((figure.engine or engine, figure.case) for figure in self.figures))

    def over(self, other: "Quantity") -> "Ratio":
        return Ratio(self, other)

    def at_least(self, low: float) -> "Bounds":
        return Bounds(self, low=low)

    def at_most(self, high: float) -> "Bounds":
        return Bounds(self, high=high)

    def between(self, low: float, high: float) -> "Bounds":
        return Bounds(self, low, high)

    def typical(self, record: Record, engine: str) -> float | None:
        """The median over the rounds, None when a round's figure is missing or could not be computed."""
        values = list(self.series(record, engine).values())
        return median(values) if values and all(map(math.isfinite, values)) else None

    def interval(self, record: Record, engine: str, level: float) -> Interval:
        return interval_of_mean(list(self.series(record, engine).values()), level)


@dataclass(frozen=True)
class Figure(Quantity):
    """A figure as it was recorded for a case, on the engine that is judged or on the one that is named."""

    case: str
    name: str
    engine: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name}({self.case}{f' of {self.engine}' if self.engine else ''})"

    @property
    def unit(self) -> str:
        return unit_of(self.name)

    @property
    def figures(self) -> tuple["Figure", ...]:
        return (self,)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        return record.series(self.engine or engine, self.case, self.name)


@dataclass(frozen=True)
class PerRoundTrip(Quantity):
    """The law clients/RTT: how often a second `clients` commit that each wait one measured round trip (1/s).

    `trip` is the figure of the round trip that is meant: the median one, or the shortest, which no commit can beat.
    """

    case: str
    clients: int = 1
    trip: str = "rtt_p50_ms"

    unit = "1/s"

    @property
    def label(self) -> str:
        return f"({self.clients}/{self.trip}({self.case}))"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (Figure(self.case, self.trip),)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        trips = self.figures[0].series(record, engine)
        return {n: self.clients * 1000 / ms if ms else math.nan for n, ms in trips.items()}


@dataclass(frozen=True)
class Ratio(Quantity):
    """One quantity over another, paired by round."""

    numerator: Quantity
    denominator: Quantity

    unit = ""

    @property
    def label(self) -> str:
        return f"{self.numerator.label} / {self.denominator.label}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return self.numerator.figures + self.denominator.figures

    def equals(self, within: float = 0.05) -> "Bounds":
        """The two are the same but for a share of `within`."""
        return Bounds(self, 1 - within, 1 + within)

    def series(self, record: Record, engine: str) -> dict[int, float]:
        return {n: over / under if under else math.nan for n, (over, under) in self._pairs(record, engine).items()}

    def interval(self, record: Record, engine: str, level: float) -> Interval:
        return interval_of_ratio(list(self._pairs(record, engine).values()), level)

    def _pairs(self, record: Record, engine: str) -> dict[int, tuple[float, float]]:
        over, under = self.numerator.series(record, engine), self.denominator.series(record, engine)
        return {n: (over[n], under[n]) for n in over if n in under}


@dataclass(frozen=True)
class Sum(Quantity):
    """Several figures of the same unit together, paired by round."""

    parts: tuple[Figure, ...]

    @property
    def label(self) -> str:
        return f"({' + '.join(part.label for part in self.parts)})"

    @property
    def unit(self) -> str:
        return self.parts[0].unit

    @property
    def figures(self) -> tuple[Figure, ...]:
        return self.parts

    def series(self, record: Record, engine: str) -> dict[int, float]:
        each = [part.series(record, engine) for part in self.parts]
        return {n: math.fsum(series[n] for series in each) for n in each[0] if all(n in series for series in each)}


def together(*parts: Figure) -> Sum:
    return Sum(parts)


def figure(case: str, name: str, engine: str | None = None) -> Figure:
    return Figure(case, name, engine)


def throughput(case: str) -> Figure:
    """Commits a second."""
    return Figure(case, "throughput")


def latency_p50(case: str) -> Figure:
    """Median commit latency, ms."""
    return Figure(case, "latency_p50_ms")


def latency_min(case: str) -> Figure:
    """Smallest commit latency, ms."""
    return Figure(case, "latency_min_ms")


def rtt(case: str) -> Figure:
    """Median measured round trip of the link, ms."""
    return Figure(case, "rtt_p50_ms")


def per_round_trip(case: str, clients: int = 1) -> PerRoundTrip:
    return PerRoundTrip(case, clients)


def unit_of(name: str) -> str:
    """The unit that a figure's name tells: `…_ms` is in milliseconds, throughput in 1/s, all else are counts."""
    if name.endswith("_ms"):
        return "ms"
    return "1/s" if name == "throughput" else ""


# --- relations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """A quantity lies between `low` and `high` (either may be open)."""

    quantity: Quantity
    low: float = -math.inf
    high: float = math.inf

    @property
    def cases(self) -> tuple[str, ...]:
        return self.quantity.cases

    @property
    def references(self) -> frozenset[str]:
        return self.quantity.references

    def measured_on(self, engine: str) -> tuple[Place, ...]:
        return self.quantity.measured_on(engine)

    @property
    def unit(self) -> str:
        return self.quantity.unit

    @property
    def text(self) -> str:
        return f"{self.quantity.label} {self._limits}"

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        """The measurements that are decided by: of what noise made of another one no figure is used."""
        return [m for at, case in self.measured_on(engine) for m in record.quiet(at, case).values()]

    def decide(self, record: Record, engine: str, plan: Plan) -> Finding:
        values = self.quantity.series(record, engine)
        rounds = len(values)
        if too_few := _why_not_decidable(self.quantity, values, record, engine, plan):
            return Finding(Verdict.UNKNOWN, too_few, rounds=rounds)
        interval = self.quantity.interval(record, engine, plan.level)
        verdict = self._compare(interval)
        return Finding(verdict, self._reason(verdict, interval), interval.estimate, interval, rounds)

    def _compare(self, interval: Interval) -> Verdict:
        if self.low <= interval.low and interval.high <= self.high:
            return Verdict.HOLDS
        if interval.high < self.low or self.high < interval.low:
            return Verdict.REFUTED
        return Verdict.UNKNOWN

    def _reason(self, verdict: Verdict, interval: Interval) -> str:
        found = f"{interval.low:.4g}–{interval.high:.4g}"
        if verdict is Verdict.UNKNOWN:
            return f"undecided after {interval.n} rounds: {found} straddles {self._straddled(interval)}"
        compared = "is" if verdict is Verdict.HOLDS else "is not"
        return f"decided after {interval.n} rounds: {found} {compared} {self._limits}"

    def _straddled(self, interval: Interval) -> str:
        return " and ".join(f"{b:g}" for b in (self.low, self.high) if interval.low <= b <= interval.high)

    @property
    def _limits(self) -> str:
        if math.isinf(self.high):
            return f"≥ {self.low:g}"
        return f"≤ {self.high:g}" if math.isinf(self.low) else f"in {self.low:g}–{self.high:g}"


@dataclass(frozen=True)
class Total:
    """A count summed over all rounds. Noisy rounds count too: a lost row is lost, however busy the host was."""

    case: str
    name: str

    def is_zero(self, trials: str, at_least: int = 30) -> "NoneSeen":
        """It never happened, in at least so many trials (`trials` names the figure that counts them)."""
        return NoneSeen(self, trials, at_least)

    def is_positive(self) -> "SomeSeen":
        """It happened at least once."""
        return SomeSeen(self)

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return record.of(engine, self.case)

    def sum(self, record: Record, engine: str, name: str | None = None) -> tuple[int, int]:
        """(sum of the figure, number of measurements that took it). Raises NoInterval when one failed to compute."""
        name = name or self.name
        taken = [m.figures[name] for m in self.counted(record, engine) if name in m.figures]
        if any(count is None or not math.isfinite(count) for count in taken):
            raise NoInterval(f"{name}({self.case}) could not be computed in {sum(c is None for c in taken)} rounds")
        return round(sum(taken)), len(taken)


class QuietTotal(Total):
    """A count that time has a part in, such as who caught up: a noisy round says nothing of it."""

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return list(record.quiet(engine, self.case).values())


def per_shortest_round_trip(case: str, clients: int = 1) -> PerRoundTrip:
    """The law's upper bound: a median of pings has half of the round trips below it, and their spread with it."""
    return PerRoundTrip(case, clients, "rtt_min_ms")


def total(case: str, name: str) -> Total:
    return Total(case, name)


def quiet_total(case: str, name: str) -> QuietTotal:
    return QuietTotal(case, name)


@dataclass(frozen=True)
class NoneSeen:
    """HOLDS when nothing was seen in enough trials, REFUTED by the first counterexample."""

    count: Total
    trials: str
    at_least: int

    unit = ""
    references = frozenset()

    @property
    def cases(self) -> tuple[str, ...]:
        return (self.count.case,)

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return self.count.counted(record, engine)

    def measured_on(self, engine: str) -> tuple[Place, ...]:
        return ((engine, self.count.case),)

    @property
    def text(self) -> str:
        return f"{self.count.name}({self.count.case}) = 0 in ≥ {self.at_least} {self.trials}"

    def decide(self, record: Record, engine: str, plan: Plan) -> Finding:
        seen, rounds = self.count.sum(record, engine)
        trials, _ = self.count.sum(record, engine, self.trials)
        if not rounds:
            return Finding(Verdict.UNKNOWN, _not_taken(self.count.case, self.count.name, record, engine))
        if seen > 0:
            return Finding(Verdict.REFUTED, f"{seen} in {trials} {self.trials}", seen, None, rounds, settled=True)
        if trials < self.at_least:
            reason = f"none seen, but in {trials} {self.trials} only; {self.at_least} are needed"
            return Finding(Verdict.UNKNOWN, reason, 0, None, rounds)
        share = f"at most {highest_share(trials):.2g} of all could be (95 %)"
        return Finding(Verdict.HOLDS, f"0 in {trials} {self.trials}; {share}", 0, None, rounds)


@dataclass(frozen=True)
class SomeSeen:
    """HOLDS by the first example, else UNKNOWN: not having seen it proves nothing."""

    count: Total

    unit = ""
    references = frozenset()

    @property
    def cases(self) -> tuple[str, ...]:
        return (self.count.case,)

    def counted(self, record: Record, engine: str) -> list[Measurement]:
        return self.count.counted(record, engine)

    def measured_on(self, engine: str) -> tuple[Place, ...]:
        return ((engine, self.count.case),)

    @property
    def text(self) -> str:
        return f"{self.count.name}({self.count.case}) > 0"

    def decide(self, record: Record, engine: str, plan: Plan) -> Finding:
        seen, rounds = self.count.sum(record, engine)
        if seen > 0:
            return Finding(Verdict.HOLDS, f"{seen} seen in {rounds} rounds", seen, None, rounds, settled=True)
        reason = (
            f"none seen in {rounds} rounds" if rounds else _not_taken(self.count.case, self.count.name, record, engine)
        )
        return Finding(Verdict.UNKNOWN, reason, 0 if rounds else None, None, rounds)


def _why_not_decidable(quantity: Quantity, values: dict, record: Record, engine: str, plan: Plan) -> str | None:
    failed = [str(n) for n, value in values.items() if not math.isfinite(value)]
    if failed:
        return f"{quantity.label} could not be computed in round {', '.join(failed)}"
    if not values:
        return _why_absent(quantity, record, engine)
    if len(values) < plan.min_rounds:
        return f"{len(values)} quiet rounds of {quantity.label}, {plan.min_rounds} are needed" + _noise(
            quantity.measured_on(engine), record
        )
    if len(values) > plan.max_rounds:
        return f"{len(values)} rounds were measured, {plan.max_rounds} planned: a look beyond the plan is not paid for"
    return None


def _why_absent(quantity: Quantity, record: Record, engine: str) -> str:
    for part in quantity.figures:
        if not part.series(record, engine):
            return _not_taken(part.case, part.name, record, part.engine or engine)
    return f"no round has all of {quantity.label}" + _noise(quantity.measured_on(engine), record)


def _not_taken(case: str, name: str, record: Record, engine: str) -> str:
    taken = record.of(engine, case)
    if not taken:
        return f"{case} was not measured"
    if not any(name in m.figures for m in taken):
        recorded = sorted({known for m in taken for known in m.figures})
        return f"{case} has no figure {name}; recorded were {', '.join(recorded) or 'none'}"
    return f"no quiet round of {case}" + _noise([(engine, case)], record)


def _noise(places: Iterable[Place], record: Record) -> str:
    noisy = [
        f"{case}, round {m.round}: {m.noise.why or 'noisy host'}"
        for engine, case in places
        for m in record.of(engine, case)
        if not m.noise.quiet
    ]
    return f" ({'; '.join(noisy)})" if noisy else ""


# --- claims and judgements --------------------------------------------------------------------------------------------

Relation = Bounds | NoneSeen | SomeSeen
Prediction = Quantity | float | Callable[[Record, str], float | None] | None


@dataclass(frozen=True)
class Claim:
    """A sentence that can turn out false. `published` and `predicted` are in the unit of what the relation measures."""

    id: str
    sentence: str
    relation: Any
    published: float | None = None
    predicted: Prediction = None


@dataclass(frozen=True)
class Expected:
    """The verdict that a claim is known to come to on an engine, with the reason when it is not HOLDS."""

    verdict: Verdict = Verdict.HOLDS
    because: str = ""


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict on one engine. `changed` is what fails a regression run; `reason` says how it was decided, and
    `doubted` that it is UNKNOWN for more than a lack of figures.
    """

    claim: str
    sentence: str
    engine: str
    relation: str
    unit: str
    verdict: Verdict
    reason: str
    expected: Verdict = Verdict.HOLDS
    because: str = ""
    published: float | None = None
    predicted: float | None = None
    measured: float | None = None
    interval: Interval | None = None
    rounds: int = 0
    settled: bool = field(default=False, compare=False)
    doubted: bool = field(default=False, compare=False)

    @property
    def changed(self) -> bool:
        return self.verdict is not Verdict.UNKNOWN and self.verdict is not self.expected


def judge(claim: Claim, record: Record, engine: str, plan: Plan, expected: Expected = Expected()) -> Judgement:
    """Judge one claim on one engine. Never raises: a judge that crashes comes to UNKNOWN with its error."""
    try:
        finding = _find(claim, record, engine, plan)
        predicted = _predict(claim.predicted, record, engine)
    except Exception as error:  # whatever went wrong, it must not look like a decision
        reason = f"the judge failed: {type(error).__name__}: {error}"
        finding, predicted = Finding(Verdict.UNKNOWN, reason, settled=True, doubted=True), None
    return Judgement(
        claim=claim.id,
        sentence=claim.sentence,
        engine=engine,
        relation=claim.relation.text,
        unit=claim.relation.unit,
        verdict=finding.verdict,
        reason=finding.reason,
        expected=expected.verdict,
        because=expected.because,
        published=claim.published,
        predicted=predicted,
        measured=finding.measured,
        interval=finding.interval,
        rounds=finding.rounds,
        settled=finding.settled or finding.verdict is not Verdict.UNKNOWN,
        doubted=finding.doubted,
    )


@dataclass(frozen=True)
class NotJudged:
    """A claim without a verdict on an engine, and why; `case` is the one that was not measured, if that is why."""

    claim: str
    engine: str
    reason: str
    case: str | None = None


def without_its_cases(claim: Claim, record: Record, engine: str) -> NotJudged | None:
    """That a case of the claim was not measured, since the engine cannot have it or the preset leaves it out."""
    if engine in claim.relation.references:
        return NotJudged(claim.id, engine, f"{engine} is what others are compared with", claim.relation.cases[0])
    for server, case in claim.relation.measured_on(engine):
        lab = record.lab(server)
        if server not in record.engines:
            reason = f"{server}, with which it is compared, is not part of this run"
            return NotJudged(claim.id, engine, reason, case)
        if lab and case in lab.not_applicable:
            return NotJudged(claim.id, engine, lab.not_applicable[case], case)
    return None


def exit_code(judgements: Iterable[Judgement]) -> int:
    """1 when a verdict is not the expected one, else 2 when one is UNKNOWN or there is none at all, else 0."""
    judgements = list(judgements)
    if any(j.changed for j in judgements):
        return 1
    return 2 if not judgements or any(j.verdict is Verdict.UNKNOWN for j in judgements) else 0


def _find(claim: Claim, record: Record, engine: str, plan: Plan) -> Finding:
    finding = _decide(claim.relation, record, engine, plan)
    if doubts := _doubts(claim, record, engine):
        return replace(finding, verdict=Verdict.UNKNOWN, reason=_shortened(doubts), settled=True, doubted=True)
    if finding.verdict is Verdict.UNKNOWN and (stopped := _stopped(record)):
        return replace(finding, reason=f"{stopped}; {finding.reason}")
    return finding


def _doubts(claim: Claim, record: Record, engine: str) -> list[str]:
    """Reasons to doubt what is read for a claim, those about the whole run once."""
    counted = claim.relation.counted(record, engine)
    servers = dict.fromkeys([engine, *(server for server, _ in claim.relation.measured_on(engine))])
    told = [record.doubts(server, [m for m in counted if m.engine == server]) for server in servers]
    return list(dict.fromkeys(doubt for doubts in told for doubt in doubts))


def _decide(relation: Relation, record: Record, engine: str, plan: Plan) -> Finding:
    try:
        return relation.decide(record, engine, plan)
    except NoInterval as error:
        return Finding(Verdict.UNKNOWN, f"{relation.text}: {error}")


def _shortened(doubts: list[str]) -> str:
    more = f" (and {len(doubts) - 2} more)" if len(doubts) > 2 else ""
    return "; ".join(doubts[:2]) + more


def _stopped(record: Record) -> str | None:
    if record.crashed:
        return f"the run crashed: {record.crashed.error}"
    if record.interrupted:
        return f"interrupted by {record.interrupted.reason}"
    return "the run was killed: its record breaks off in the middle of a line" if record.torn else None


def _predict(predicted: Prediction, record: Record, engine: str) -> float | None:
    if isinstance(predicted, Quantity):
        return predicted.typical(record, engine)
    found = predicted(record, engine) if callable(predicted) else predicted
    return found if found is None or math.isfinite(found) else None
