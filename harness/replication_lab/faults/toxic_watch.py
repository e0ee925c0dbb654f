"""The evidence of a toxic: measurements of its link before, during and after a load match the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from replication_lab.faults.packet_watch import PacketWatch, realised_packets
from replication_lab.faults.toxic_rate import realised_rate
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.record.measurement import SeenToxic
from replication_lab.probes.round_trip import RoundTrip, spread
from replication_lab.world.packets.link import RunningLink

# A link counts as slowed when its round trip is within a tenth of the requested one; the proxy itself costs < 3 ms.
SHARE, PROXY_MS = 0.10, 3.0
# A single round trip may be shorter than the calibrated median by this much, because of the proxy's timers. Under load
# a few are shorter still; without the toxic none would be nearly as long.
TIMERS_MS = 2.0
SHORT_SHARE, LEAST_SHARE = 0.05, 0.75
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
            return f"an answer came after {probe.answer_within(SILENCE_SECONDS):.1f} ms", False
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
    said = f"round trip {trip:.1f} ms (requested {toxic.round_trip_ms} ms)"
    if toxic.jitter_ms:
        near = near and varies_enough(trips, toxic.jitter_ms)
        asked_for = f"requested {toxic.round_trip_ms} ms ± {toxic.jitter_ms} ms"
        said = f"round trip {min(trips):.1f} to {max(trips):.1f} ms, median {trip:.1f} ms ({asked_for})"
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
    before_ms: float | None = None
    after_ms: float | None = None
    trips: list[float] = field(default_factory=list)
    there_to_the_last: bool = True
    on_packets: list[PacketWatch] = field(default_factory=list)

    def faults(self) -> list[SeenToxic]:
        """Return the evidence of the round trips, and of the effects on packets in each direction."""
        return [self.fault(), *(each.fault(self.link, self.asked.name) for each in self.on_packets)]

    def fault(self) -> SeenToxic:
        why, slow = self._why_not_seen(), self._why_slow()
        return SeenToxic(
            link=self.link,
            toxic=self.asked.name,
            unit="ms",
            asked=self.asked.round_trip_ms,
            before=_rounded(self.before_ms),
            during=spread(self.trips),
            after=_rounded(self.after_ms),
            seen=not why and not slow,
            why=why or slow,
            slow=bool(slow) and not why,
        )

    @property
    def tolerance_ms(self) -> float:
        """By how much a round trip may be shorter than requested; never as much as a toxic without effect would be."""
        trip_ms = self.asked.round_trip_ms
        return max(trip_ms * SHARE, min(TIMERS_MS, trip_ms / 2)) + self.asked.jitter_ms

    def _why_not_seen(self) -> str:
        asked_ms, jitter_ms = self.asked.round_trip_ms, self.asked.jitter_ms
        asked = f"requested {asked_ms:g} ms on {self.link}"
        if not self.asked.is_latency:
            return f"{self.asked.name} is more than a latency, so round trips do not verify it"
        if not self.trips:
            return f"{asked}, but no round trip completed during the load"
        # Every single round trip counts: a toxic that is missing for one second of ten also distorts the figures.
        if min(self.trips) < LEAST_SHARE * asked_ms - jitter_ms:
            return f"{asked}, but the shortest round trip during the load was {min(self.trips):.1f} ms"
        short = sum(trip < asked_ms - self.tolerance_ms for trip in self.trips) / len(self.trips)
        if short > SHORT_SHARE:
            least = asked_ms - self.tolerance_ms
            return f"{asked}, but {short:.0%} of the round trips during the load were shorter than {least:.1f} ms"
        if jitter_ms and not varies_enough(self.trips, jitter_ms):
            measured = f"{min(self.trips):.1f} to {max(self.trips):.1f} ms"
            return f"{asked} ± {jitter_ms:g} ms, but round trips were {measured}"
        # With a jitter as long as the delay, a single round trip may be as short as without the toxic.
        return "" if self.there_to_the_last else f"{asked}, but the toxic was removed during the load"

    def _why_slow(self) -> str:
        """Return which round trip took longer than a machine in time makes it; empty if none did.

        Without the toxic it tells the link's own part from the toxic's.
        """
        if not self.asked.is_latency or not self.trips:
            return ""
        for when, found in (("before", self.before_ms), ("after", self.after_ms)):
            if self.asked.round_trip_ms > PROXY_MS and (found is None or found > self.asked.round_trip_ms / 2):
                said = f"{when} the load, without the toxic, the round trip was {_said(found)}"
                return f"requested {self.asked.round_trip_ms:g} ms on {self.link}, but {said}"
        typical = round(median(self.trips), 3)
        if typical <= self.asked.round_trip_ms + self.tolerance_ms + PROXY_MS:
            return ""
        return (
            f"requested {self.asked.round_trip_ms:g} ms on {self.link}, but the median round trip during the load was "
            f"{typical:.1f} ms"
        )


def _said(trip_ms: float | None) -> str:
    return "not measured" if trip_ms is None else f"{trip_ms:.1f} ms"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@contextmanager
def toxic_on(link: RunningLink, toxic: Toxic, asked: Toxic, probe: RoundTrip) -> Iterator[ToxicOnLink]:
    """Apply `toxic` (calibrated from `asked`) to the link within the block, and measure it during the whole block.

    Only the bodies that were added are removed. One that was removed by other means is not an error here: the evidence
    shows it.
    """
    acting = ToxicOnLink(link.name, asked, _shortest(probe))
    try:
        for body in toxic.bodies:
            link.add(body)
        acting.on_packets = [PacketWatch(link, body) for body in asked.of_packets]
        with probe.watching() as acting.trips:
            yield acting
        for each in acting.on_packets:
            each.end()
        acting.trips += probe.pings(2)
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
