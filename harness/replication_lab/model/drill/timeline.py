"""A drill over time: the answers of each interval, and the phases before, during and after each fault.

Made of the ledger and of the recorded moments of the faults, nothing else.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from replication_lab.model.drill.checkers import Window
from replication_lab.model.drill.evidence import FaultEvidence, Looked
from replication_lab.model.drill.history import Attempt, Outcome

# Half a second shows when a fault of a few seconds began. With fewer answers in it, its rate would be chance.
FINE, COARSE, LONG_LOAD_S, FEWEST_ANSWERS = 0.5, 1.0, 30.0, 20
# A shorter phase has counts, but no rate.
SHORTEST_RATE_S = 0.5
BEFORE, INJECTION, FAULT, RECOVERY, AFTER = PHASES = "before", "injection", "fault", "recovery", "after"


class Tally(msgspec.Struct, frozen=True):
    """The statements of a span of time: how many had which outcome, and the acknowledged ones' latencies in ms."""

    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None

    @property
    def statements(self) -> int:
        return self.acknowledged + self.failed + self.unknown


class Timeline(msgspec.Struct, frozen=True):
    """The load in intervals of `width` seconds, each counted by the moment of the answers.

    `by_node` has the acknowledged statements of each node's clients. The last interval ends with the load, and has the
    answers that came later. A statement that was never answered is unknown at the moment when it was sent. `looked` are
    the nodes' views; empty in records that have none.
    """

    load: Window
    width: float
    tallies: list[Tally]
    by_node: dict[str, list[int]]
    looked: list[Looked] = []

    def begin(self, number: int) -> float:
        return round(self.load[0] + number * self.width, 6)

    def seconds(self, number: int) -> float:
        """Return the length of an interval; the last one may be shorter."""
        return min(self.width, self.load[1] - self.begin(number))


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of a drill, by the statements sent in it.

    `name` is one of PHASES, `step` the number of the fault from 1. `throughput` is in acknowledgements a second;
    the ratios are to the phase before the first fault, null where one of the two has none.
    """

    name: str
    step: int
    begin: float
    end: float
    tally: Tally
    throughput: float | None = None
    throughput_ratio: float | None = None
    latency_ratio: float | None = None


def timeline(history: Sequence[Attempt], load: Window, looked: Sequence[Looked] = ()) -> Timeline:
    """Return the load in intervals, by the moment of the answers."""
    begin, end = load
    is_fine = end - begin <= LONG_LOAD_S and len(history) * FINE >= FEWEST_ANSWERS * (end - begin)
    width = FINE if is_fine else COARSE
    count = max(-int(-(end - begin) // width), 1)
    sorted_in: list[list[Attempt]] = [[] for _ in range(count)]
    for each in history:
        at = each.invoked if each.ended == float("inf") else each.ended
        sorted_in[min(max(int((at - begin) / width), 0), count - 1)].append(each)
    nodes = sorted({each.node for each in history})
    acknowledged = [Counter(each.node for each in part if each.acknowledged) for part in sorted_in]
    by_node = {node: [part[node] for part in acknowledged] for node in nodes}
    return Timeline(load, width, [tally(part) for part in sorted_in], by_node, list(looked))


def tally(attempts: Sequence[Attempt]) -> Tally:
    """Return the outcomes and the latencies of these statements."""
    taken = [each.latency * 1000 for each in attempts if each.acknowledged]
    failed = sum(each.outcome is Outcome.FAILED for each in attempts)
    p50, p95, p99 = percentiles(taken)
    return Tally(len(taken), failed, len(attempts) - len(taken) - failed, p50, p95, p99)


def percentiles(found: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the 50th, 95th and 99th percentile, interpolated as numpy does by default; None without a value."""
    ordered = sorted(found)
    p50, p95, p99 = (quantile(ordered, share) if ordered else None for share in (0.5, 0.95, 0.99))
    return p50, p95, p99


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of values in their order, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = ordered[min(below + 1, len(ordered) - 1)]
    return round(ordered[below] + (place - below) * (above - ordered[below]), 3)


def phases(history: Sequence[Attempt], load: Window, acted: Sequence[FaultEvidence]) -> list[Phase]:
    """Return the phases in their order, by the moment when statements were sent; none if there was no fault."""
    spans = list(_spans(load, acted))
    begins = [begin for _, _, begin, _ in spans]
    parts: list[list[Attempt]] = [[] for _ in spans]
    for each in history if spans else ():
        parts[max(bisect_right(begins, each.invoked) - 1, 0)].append(each)
    tallies = [tally(part) for part in parts]
    rates = [_rate(found.acknowledged, end - begin) for found, (_, _, begin, end) in zip(tallies, spans, strict=True)]
    return [
        Phase(
            name=name,
            step=step,
            begin=begin,
            end=end,
            tally=found,
            throughput=rate,
            throughput_ratio=_ratio(rate, rates[0]),
            latency_ratio=_ratio(found.p50_ms, tallies[0].p50_ms),
        )
        for (name, step, begin, end), found, rate in zip(spans, tallies, rates, strict=True)
    ]


def _spans(load: Window, acted: Sequence[FaultEvidence]) -> Iterator[tuple[str, int, float, float]]:
    if acted:
        yield BEFORE, 1, load[0], acted[0].broke
    for number, each in enumerate(acted, 1):
        end = acted[number].broke if number < len(acted) else load[1]
        struck, healed = each.window
        yield INJECTION, number, each.broke, struck
        yield FAULT, number, struck, end if each.step.stays else healed
        if each.step.stays:
            return
        yield RECOVERY, number, healed, each.whole
        yield AFTER, number, each.whole, end


def _rate(acknowledged: int, seconds: float) -> float | None:
    return round(acknowledged / seconds, 3) if seconds >= SHORTEST_RATE_S else None


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else round(value / base, 4)
