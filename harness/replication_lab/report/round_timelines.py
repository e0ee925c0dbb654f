"""The loads of an experiment second by second, one after another: a chart of each kind, rounds and cases as bands."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from msgspec.structs import replace

from replication_lab.model.record.load_timeline import Answered, LoadTimeline, widened
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record
from replication_lab.report.chart import CASE, HIGH, Axis, Band, Chart, Line, Point, data, drawn, is_wide
from replication_lab.report.timelines import SILENT_AFTER_S, Watched, by_node, lags, states

X = "seconds of load; the time between two loads is left out"
# The widths of the intervals in seconds. Where even wide ones are too many, fewer rounds are drawn.
WIDTHS = (1, 2, 5, 10, 20, 30, 60)
SHARES = (1.0, 0.5, 0.25, 0.1)
# The bytes of an interval in all charts together, at least; and those of a chart besides its data.
LEAST_BYTES, EACH_BYTES = 100, 900
ROUNDS = ("round", "round odd")
NOISY = "noisy"

Words = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Placed:
    """A measurement on the common axis: it begins `at`, and its answers are in intervals of the charts' width."""

    measured: Measurement
    found: LoadTimeline
    at: float
    answers: Sequence[Answered]

    @property
    def end(self) -> float:
        return self.at + self.found.length


@dataclass(frozen=True)
class Rounds:
    """All measurements of an engine that have a timeline, in their order."""

    placed: Sequence[Placed]
    width: int
    words: Words
    counts: str

    @property
    def end(self) -> float:
        return self.placed[-1].end

    def line(self, label: str, look: int, value: Callable[[Answered, float], float | None]) -> Line:
        """Return a line with a step for each interval; it has a gap between two loads."""
        return _line(label, look, (point for each in self.placed for point in self._of_a_load(each, value)))

    def _of_a_load(self, each: Placed, value: Callable[[Answered, float], float | None]) -> Iterator[Point]:
        last = None
        for number, answers in enumerate(each.answers):
            at = number * self.width
            seconds = min(self.width, each.found.load - at)
            # The rate of a short rest would be chance.
            last = value(answers, seconds) if number == 0 or seconds >= self.width / 2 else None
            yield each.at + at, last
        yield each.at + each.found.load, last
        yield each.at + each.found.load, None


def _line(label: str, look: int, points: Iterable[Point]) -> Line:
    return Line(label, [(round(at, 2), value) for at, value in points], look, steps=True, closed=True)


@dataclass(frozen=True)
class Fitted:
    """The charts of the measurements that have room on the page: those of the first `rounds` of `whole` rounds."""

    charts: Sequence[Chart]
    measurements: int
    rounds: int
    whole: int


def measured(engine: str, record: Record) -> list[Measurement]:
    """Return the measurements of an engine that have a timeline."""
    return [m for m in record.measurements if m.engine == engine and m.timeline]


def rounds_of(known: Sequence[Measurement], words: Words, counts: str, width: int = 1) -> Rounds:
    """Return measurements on a common axis."""
    placed, at = [], 0.0
    for each in known:
        if each.timeline:
            placed.append(Placed(each, each.timeline, at, widened(each.timeline.seconds, width)))
            at += each.timeline.length
    return Rounds(placed, width, words, counts)


def fitting(known: Sequence[Measurement], words: Words, counts: str, room: int) -> Fitted | None:
    """Return the charts of as many rounds as have room, in bytes, with intervals as short as possible; None without."""
    numbers = list(dict.fromkeys(m.round for m in known))
    for share in SHARES:
        wanted = numbers[: max(round(len(numbers) * share), 1)]
        part = [m for m in known if m.round in wanted]
        longest = max((len(m.timeline.seconds) for m in part if m.timeline), default=0)
        for number, width in enumerate(WIDTHS):
            if number and WIDTHS[number - 1] >= longest:
                break
            rounds = rounds_of(part, words, counts, width)
            if sum(len(each.answers) for each in rounds.placed) * LEAST_BYTES > room:
                continue
            found = charts(rounds)
            if sum(_bytes(each) for each in found) <= room:
                return Fitted(found, len(part), len(wanted), len(numbers))
    return None


def _bytes(chart: Chart) -> int:
    pieces = (drawn(chart), json.dumps(data(chart), separators=(",", ":")) if chart.lines else "")
    return EACH_BYTES + sum(len(each.encode()) for each in pieces)


def charts(rounds: Rounds) -> list[Chart]:
    """Return the charts that have data, all on the same axis."""
    name = f"{rounds.placed[0].measured.engine}-seconds"
    axis = Axis(name, X, (0.0, round(rounds.end, 2)), list(_bands(rounds)), name)
    return [
        *_commits(axis, rounds),
        *_latency(axis, rounds),
        *_lost(axis, rounds),
        *_lag(axis, rounds),
        *_states(axis, rounds),
    ]


# --- bands ------------------------------------------------------------------------------------------------------------


def _bands(rounds: Rounds) -> Iterator[Band]:
    """Yield the rounds, every second one shaded."""
    for place, (number, part) in enumerate(groupby(rounds.placed, lambda each: each.measured.round)):
        of_it = list(part)
        yield Band(round(of_it[0].at, 2), round(of_it[-1].end, 2), f"round {number}", ROUNDS[place % 2])


def _cases(rounds: Rounds) -> Iterator[Band]:
    for each in rounds.placed:
        m = each.measured
        noisy, kind = ("", CASE) if m.counts else (": noisy, does not count", f"{CASE} {NOISY}")
        label = rounds.words.get((m.engine, m.case), m.case) + noisy
        yield Band(round(each.at, 2), round(each.end, 2), label, kind)


# --- answers ----------------------------------------------------------------------------------------------------------


def _commits(axis: Axis, rounds: Rounds) -> Iterator[Chart]:
    rates = [answers.commits for each in rounds.placed for answers in each.answers if answers.commits]
    log = is_wide(rates)

    def rate(answers: Answered, seconds: float) -> float | None:
        return _rate(answers.commits, seconds) or (None if log else 0.0)

    yield axis.chart(
        "commits",
        f"{rounds.counts.capitalize()}s a second, measurement after measurement",
        f"{rounds.counts}s/s{', log scale' if log else ''}",
        [rounds.line(f"{rounds.counts}s", 0, rate)],
        about=f"In intervals of {rounds.width} s; a band for each case that was measured."
        + (" A gap is an interval without any." if log else ""),
        log_y=log,
        bands=[*axis.bands, *_cases(rounds)],
        height=HIGH,
    )


def _rate(number: int, seconds: float) -> float:
    return round(number / max(seconds, 1e-3), 2)


def _latency(axis: Axis, rounds: Rounds) -> Iterator[Chart]:
    def line(label: str, look: int, field: str) -> Line:
        return rounds.line(label, look, lambda answers, _: getattr(answers, field))

    wide = " p50 is the middle one of an interval's seconds, p95 and p99 the highest." if rounds.width > 1 else ""
    yield from axis.latency(f"Latency of {rounds.counts}s", line, f"Percentiles of each second.{wide}")


def _lost(axis: Axis, rounds: Rounds) -> Iterator[Chart]:
    if any(answers.lost for each in rounds.placed for answers in each.answers):
        lines = [rounds.line("failed", 1, lambda answers, seconds: _rate(answers.lost, seconds))]
        about = "Refused, or lost against another one."
        yield axis.chart("errors", f"{rounds.counts.capitalize()}s that failed", "errors/s", lines, about=about)


# --- nodes ------------------------------------------------------------------------------------------------------------


def _watched(rounds: Rounds) -> list[Watched]:
    """Return what the nodes reported in each load; what one reported soon after the begin holds from there on."""
    found = []
    for each in rounds.placed:
        stays = by_node(each.found.states)
        for of_node in stays.values():
            if of_node[0].begin <= SILENT_AFTER_S:
                of_node[0] = replace(of_node[0], begin=0.0)
        found.append(Watched(each.at, each.found.length, stays))
    return found


def _lag(axis: Axis, rounds: Rounds) -> Iterator[Chart]:
    lines = [_line(node, look, points) for look, (node, points) in enumerate(lags(_watched(rounds)).items())]
    if any(lag for line in lines for _, lag in line.points):
        about = "As each replica reports it, in whole seconds."
        yield axis.chart("lag", "Lag of the replicas", "s behind", lines, about=about)


def _states(axis: Axis, rounds: Rounds) -> Iterator[Chart]:
    if parts := states(_watched(rounds)):
        lag = any(stay.view.behind_s for each in rounds.placed for stay in each.found.states)
        about = "As each node reports it, about once a second." + ("" if lag else " No replica reported a lag.")
        yield axis.chart("states", "States of the nodes", about=about, **parts)
