"""The evidence of a toxic: measurements of its link before, during and after a load match the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from statistics import median

from replication_lab.faults.link_proof import PROXY_MS, PacketWatch, from_to, varies_enough
from replication_lab.faults.toxic_calibration import timers_of
from replication_lab.model.core.figures import three_digits
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.record.measurement import SeenToxic
from replication_lab.probes.round_trip import PAUSE_SECONDS, RoundTrip, spread
from replication_lab.world.packets.link import RunningLink

# During a load the round trip is as requested while it is not shorter by more than this share, or by what its timers
# may add to an idle link and not to a busy one; never by as much as a toxic without effect would be.
SHARE = 0.10
# It may be shorter for this share of the load, and for this long without interruption: a single one proves nothing.
SHORT_SHARE, SHORT_SECONDS = 0.05, 1.0
# A single round trip may take so much longer than requested: it was 0.15 s at most in the kept loads, and 0.64 s on a
# busy machine. An interruption of a second makes the one that is under way so much longer.
LONGER_SECONDS = 0.9


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
            before=self.before_ms,
            during=spread(self.trips),
            after=self.after_ms,
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
        return f"with a jitter of {three_digits(self.asked.jitter_ms)} ms round trips were {from_to(self.trips)}"

    def _why_slow(self) -> str:
        """Return by how much round trips took longer than on a machine in time; empty if they did not.

        What the link takes before and after the load does not count: a machine that is slow then is no toxic, and a
        witness knows each change of the link.
        """
        if not self.asked.is_latency or not self.trips:
            return ""
        typical, longest_s = median(self.trips), max(self.trips) / 1000
        if typical > self.asked.round_trip_ms + self.tolerance_ms + PROXY_MS:
            return f"the median round trip during the load was {three_digits(typical)} ms"
        # TCP sends what was lost again, each time later.
        if longest_s > self.asked.round_trip_ms / 1000 + LONGER_SECONDS and not self.asked.of_packets:
            return f"a round trip during the load took {three_digits(longest_s)} s"
        return ""


def _time_below(trips: Sequence[float], least_ms: float) -> tuple[float, float]:
    """Return for which share of the time round trips were shorter, and for how many seconds without interruption.

    Each stands for the time from its beginning to that of the next.
    """
    spans = [(trip + PAUSE_SECONDS * 1000, trip < least_ms) for trip in trips]
    short = [sum(span for span, _ in run) for is_short, run in groupby(spans, itemgetter(1)) if is_short]
    return sum(short) / sum(span for span, _ in spans), max(short, default=0.0) / 1000


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
            if body.name in {found.name for found in link.toxics()}:
                link.remove(body.name)
        acting.after_ms = _shortest(probe)


def _shortest(probe: RoundTrip) -> float | None:
    # A busy machine lengthens a round trip and never shortens one.
    trips = probe.pings()
    return round(min(trips), 3) if trips else None
