"""The evidence of a toxic: measurements of its link before, during and after a load match the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from replication_lab.faults.packet_watch import PacketWatch, realised_packets
from replication_lab.faults.toxic_calibration import timers_of
from replication_lab.faults.toxic_rate import realised_rate
from replication_lab.model.core.figures import three_digits
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.record.measurement import SeenToxic
from replication_lab.probes.round_trip import PAUSE_SECONDS, RoundTrip, spread
from replication_lab.world.packets.link import RunningLink

# The proxy itself costs less than this.
PROXY_MS = 3.0
# During a load the round trip is as requested while it is not shorter by more than this share, or by what its timers
# may add to an idle link and not to a busy one; never by as much as a toxic without effect would be.
SHARE = 0.10
# It may be shorter for this share of the load, and for this long without interruption: a single one proves nothing.
SHORT_SHARE, SHORT_SECONDS = 0.05, 1.0
SILENCE_SECONDS = 0.5
# On a link with a rate, connections take turns by pieces of this time, but never smaller than this size
# (images/toxiproxy/link_bandwidth.go).
TURN_MS, PIECE_KB = 5.0, 1.5
# In this number of round trips some differ by half of the jitter, but rarely by all of it: both directions seldom
# reach their extremes at the same time.
JITTER_PINGS, JITTER_SHARE = 20, 0.5


def varies_enough(trips: Sequence[float], jitter_ms: float) -> bool:
    """Return whether round trips vary as with a jitter; with a constant delay they do not."""
    return max(trips) - min(trips) >= jitter_ms * JITTER_SHARE


def said_of_trips(trips: Sequence[float]) -> str:
    return f"{_from_to(trips)}, median {three_digits(median(trips))} ms"


def _from_to(trips: Sequence[float]) -> str:
    return f"{three_digits(min(trips))} to {three_digits(max(trips))} ms"


def realised(toxic: Toxic, probe: RoundTrip, bare_ms: float = 0.0, measured: Sequence[float] = ()) -> tuple[str, bool]:
    """Measure the link with `toxic` on it; return the result in words, and whether it matches the toxic's file.

    `bare_ms` is the round trip without any toxic. A toxic without latency does not change it, and an emulated machine
    answers late across any link. `measured` are round trips in ms since the toxic was put on the link, if there are
    any: they need not be measured again, unless their variation counts.
    """
    said, ok = _realised_streams(toxic.of_streams, probe, bare_ms, measured)
    if not toxic.of_packets:
        return said, ok
    lost, proved = realised_packets(toxic, probe.link)
    return f"{said}, {lost}", ok and proved


def _realised_streams(  # noqa: PLR0911 - one for each kind
    toxic: Toxic, probe: RoundTrip, bare_ms: float, measured: Sequence[float]
) -> tuple[str, bool]:
    if toxic.silences:
        try:
            return f"an answer came after {three_digits(probe.answer_within(SILENCE_SECONDS))} ms", False
        except TimeoutError:
            return f"no answer within {SILENCE_SECONDS:g} s", True
    if toxic.resets:
        reset = probe.typical(1) is None
        return ("its connections end" if reset else "its connections stay open"), reset
    if not toxic.is_measured:
        return "the lab cannot measure a toxic of this kind", False
    trips = probe.pings(JITTER_PINGS) if toxic.jitter_ms else measured or probe.pings()
    if not trips:
        return "no round trip completes across it", False
    # A busy machine lengthens a round trip and never shortens it, so the shortest one proves the link's own delay.
    trip = median(trips) if toxic.jitter_ms else min(trips)
    asked = toxic.round_trip_ms or min(trip, bare_ms)
    most = toxic.jitter_ms + max(PROXY_MS, toxic.round_trip_ms * 0.05)
    near = -most <= trip - asked <= most + _behind_others_ms(toxic) and trip >= asked / 2
    asked_for = f"requested {three_digits(toxic.round_trip_ms)} ms"
    said = f"round trip {three_digits(trip)} ms ({asked_for})"
    if toxic.jitter_ms:
        near = near and varies_enough(trips, toxic.jitter_ms)
        said = f"round trip {said_of_trips(trips)} ({asked_for} ± {three_digits(toxic.jitter_ms)} ms)"
    if not toxic.rate_kbps:
        return said, near
    carried, proved = realised_rate(toxic, probe)
    return f"{said}, {carried}", near and proved


def _behind_others_ms(toxic: Toxic) -> float:
    """Return the longest time that a ping waits for a piece of another connection's data, once in each direction."""
    return 2 * max(TURN_MS, 1000 * PIECE_KB / toxic.rate_kbps) if toxic.rate_kbps else 0.0


@dataclass
class ToxicOnLink:
    """An active toxic and its measurements; after the block has ended, `fault()` returns the evidence."""

    link: str
    asked: Toxic
    # By how many ms a round trip may be shorter because of the proxy's timers.
    shorter_ms: float
    before_ms: float | None = None
    after_ms: float | None = None
    trips: list[float] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    there_to_the_last: bool = True
    answered_to_the_last: bool = True
    on_packets: list[PacketWatch] = field(default_factory=list)

    def faults(self) -> list[SeenToxic]:
        """Return the evidence of the round trips, and of the effects on packets in each direction."""
        return [self.fault(), *(each.fault(self.link, self.asked.name) for each in self.on_packets)]

    def fault(self) -> SeenToxic:
        why, slow = self._why_not_seen(), self._why_slow()
        asked = f"requested {three_digits(self.asked.round_trip_ms)} ms on {self.link}"
        return SeenToxic(
            link=self.link,
            toxic=self.asked.name,
            unit="ms",
            asked=self.asked.round_trip_ms,
            before=_rounded(self.before_ms),
            during=spread(self.trips),
            after=_rounded(self.after_ms),
            seen=not why and not slow,
            why=f"{asked}, but {why or slow}" if why or slow else "",
            slow=bool(slow) and not why,
        )

    @property
    def tolerance_ms(self) -> float:
        """By how much a round trip may be shorter than requested; never as much as a toxic without effect would be."""
        trip_ms = self.asked.round_trip_ms
        return max(trip_ms * SHARE, min(self.shorter_ms, trip_ms / 2)) + self.asked.jitter_ms

    def _why_not_seen(self) -> str:
        if not self.asked.is_latency:
            return f"{self.asked.name} is more than that, so round trips do not verify it"
        if self.others:
            return f"the link already had {', '.join(self.others)}"
        if not self.trips or not self.answered_to_the_last:
            when = "at the end of the load" if self.trips else "during the load"
            return f"no round trip completed {when}"
        # With a jitter as long as the delay, a single round trip may be as short as without the toxic.
        removed = "" if self.there_to_the_last else "the toxic was removed during the load"
        return self._why_short() or self._why_steady() or removed

    def _why_short(self) -> str:
        least_ms = self.asked.round_trip_ms - self.tolerance_ms
        share, longest_s = _time_below(self.trips, least_ms)
        if share <= SHORT_SHARE and longest_s <= SHORT_SECONDS:
            return ""
        span = f"{share:.0%} of the load" if share > SHORT_SHARE else f"{three_digits(longest_s)} s"
        return f"for {span} the round trip was shorter than {three_digits(least_ms)} ms"

    def _why_steady(self) -> str:
        if not self.asked.jitter_ms or varies_enough(self.trips, self.asked.jitter_ms):
            return ""
        return f"with a jitter of {three_digits(self.asked.jitter_ms)} ms round trips were {_from_to(self.trips)}"

    def _why_slow(self) -> str:
        """Return by how much round trips took longer than on a machine in time; empty if they did not.

        What the link takes before and after the load does not count: a machine that is slow then is no toxic, and a
        witness knows each change of the link.
        """
        if not self.asked.is_latency or not self.trips:
            return ""
        typical = median(self.trips)
        if typical <= self.asked.round_trip_ms + self.tolerance_ms + PROXY_MS:
            return ""
        return f"the median round trip during the load was {three_digits(typical)} ms"


def _time_below(trips: Sequence[float], least_ms: float) -> tuple[float, float]:
    """Return for which share of the time round trips were shorter, and for how many seconds without interruption.

    Each stands for the time from its beginning to that of the next.
    """
    spans = [(trip + PAUSE_SECONDS * 1000, trip < least_ms) for trip in trips]
    short, longest, without_break = 0.0, 0.0, 0.0
    for span, below in spans:
        without_break = without_break + span if below else 0.0
        longest = max(longest, without_break)
        short += span if below else 0.0
    return short / sum(span for span, _ in spans), longest / 1000


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@contextmanager
def toxic_on(link: RunningLink, toxic: Toxic, asked: Toxic, probe: RoundTrip) -> Iterator[ToxicOnLink]:
    """Apply `toxic` (calibrated from `asked`) to the link within the block, and measure it during the whole block.

    Only the bodies that were added are removed. One that was removed by other means is not an error here: the evidence
    shows it.
    """
    acting = ToxicOnLink(link.name, asked, timers_of(link).shorter, _shortest(probe))
    acting.others = [body.name for body in link.toxics()]
    try:
        for body in toxic.bodies:
            link.add(body)
        acting.on_packets = [PacketWatch(link, body) for body in asked.of_packets]
        with probe.watching() as acting.trips:
            yield acting
        for each in acting.on_packets:
            each.end()
        last = probe.pings(2)
        acting.answered_to_the_last, acting.trips = bool(last), acting.trips + last
        acting.there_to_the_last = link.carries({body.name for body in toxic.bodies})
    finally:
        for body in toxic.bodies:
            _remove_if_there(link, body.name)
        acting.after_ms = _shortest(probe)


def _shortest(probe: RoundTrip) -> float | None:
    # A busy machine lengthens a round trip and never shortens one.
    return min(probe.pings(), default=None)


def _remove_if_there(link: RunningLink, name: str) -> None:
    if name in {found.name for found in link.toxics()}:
        link.remove(name)
