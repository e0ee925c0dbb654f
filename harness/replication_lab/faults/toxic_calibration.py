"""A toxic on a link: put on, calibrated, proved by what crosses the link, and taken off to the last body."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import msgspec

from replication_lab.model.errors import LabError
from replication_lab.model.record import Fault
from replication_lab.model.toxic import Toxic, ToxicBody
from replication_lab.probes.round_trip import RoundTrip, spread
from replication_lab.world.toxiproxy import Wire

# A link counts as slowed when its round trip is within a tenth of what was asked; the proxy itself costs < 3 ms.
SHARE, PROXY_MS = 0.10, 3.0
# A trip is shorter than the median for which the toxic was calibrated by what the proxy's timers vary.
TIMERS_MS = 2.0
# As short a round trip is left as its file says: what an idle proxy's timers add is gone under load, a fifth of it, and
# who made up for it would have a link that is too short then; one of a millisecond would be none.
SHORT_MS = 10
# By how much the median of a link's round trips lies above the shortest where the machine is quiet.
QUEUED_MS = 2.0
CORRECTIONS, PINGS, RATE_NEAR, SILENCE_SECONDS = 5, 5, 0.04, 0.5
# A rate is proved when it is within so much of what was asked; it is measured by so many KB, or for so many seconds.
RATE_PROVED, RATE_KB, RATE_SECONDS = 0.1, 8_000, 4


def put(wire: Wire, toxic: Toxic) -> None:
    """Put a toxic on a link, in place of any other toxic there; what was there is put back if Toxiproxy refuses."""
    before = wire.toxics()
    clear(wire)
    try:
        for body in toxic.bodies:
            wire.add(body)
    except LabError:
        clear(wire)
        for found in before:
            wire.add(_body(found))
        raise


def clear(wire: Wire) -> None:
    """Take every toxic off a link."""
    for found in wire.toxics():
        wire.remove(found["name"])


def _body(found: dict[str, Any]) -> ToxicBody:
    return ToxicBody(found["name"], found["type"], found["stream"], found["attributes"], found["toxicity"])


def calibrated(wire: Wire, asked: Toxic, probe: RoundTrip) -> Toxic:
    """The toxic corrected by what the proxy adds or loses, so that the link's round trip and rate are as asked.

    Toxiproxy's latency is an integer and comes out up to 2 ms long; its rate comes out short, as it sleeps a little too
    long after each 32 KB. Leaves the toxic that it returns on the link.
    """
    put(wire, asked)
    toxic = asked
    for _ in range(CORRECTIONS):
        corrected = _corrected(toxic, asked, probe)
        if corrected is toxic:
            break
        toxic = corrected
        put(wire, toxic)
    return toxic


def _corrected(toxic: Toxic, asked: Toxic, probe: RoundTrip) -> Toxic:
    """The toxic nearer to what was asked, by a measurement of it as it is; the same one where it is near enough."""
    if asked.silences or asked.resets:
        return toxic
    if asked.round_trip_ms:
        trips = probe.pings(PINGS)
        if not trips:
            raise LabError(
                f"nothing comes back across {probe.wire.name}",
                f"a round trip of {asked.round_trip_ms} ms",
                "./lab status",
            )
        return corrected_by(toxic, asked, undisturbed(min(trips), median(trips)))
    if asked.rate_kbps:
        share = asked.rate_kbps / rate_of(probe, asked.rate_kbps)
        return _widened(toxic, share) if abs(share - 1) > RATE_NEAR else toxic
    return toxic


def rate_of(probe: RoundTrip, asked_kbps: int) -> float:
    """KB/s of a link that should carry so much."""
    return probe.kilobytes_per_second(min(RATE_KB, asked_kbps * RATE_SECONDS))


def undisturbed(shortest_ms: float, typical_ms: float) -> float:
    """The typical round trip as it would be on a quiet machine.

    A machine that is short of CPU for a moment lengthens most round trips and not the shortest. Whoever made up for the
    former would find a link that is too short as soon as the machine is quiet again.
    """
    return min(typical_ms, shortest_ms + QUEUED_MS)


def corrected_by(toxic: Toxic, asked: Toxic, found_ms: float) -> Toxic:
    """The toxic with its latency nearer to what was asked, given the round trip that it made; the same one if near."""
    over = round(found_ms - asked.round_trip_ms)
    if asked.round_trip_ms <= SHORT_MS or asked.jitter_ms or not over:
        return toxic
    return _shortened(toxic, over)


def _widened(toxic: Toxic, share: float) -> Toxic:
    """Both directions' rates times `share`."""
    return replace(
        toxic,
        bodies=tuple(
            replace_attributes(body, rate=round(body.attributes["rate"] * share)) if body.type == "bandwidth" else body
            for body in toxic.bodies
        ),
    )


def _shortened(toxic: Toxic, over_ms: int) -> Toxic:
    """The latency of the slower stream less what the round trip is over (more, where it is under)."""
    slowest = max(toxic.bodies, key=lambda body: body.attributes.get("latency", 0))
    shorter = replace_attributes(slowest, latency=max(0, int(slowest.attributes["latency"]) - over_ms))
    return replace(toxic, bodies=tuple(shorter if body is slowest else body for body in toxic.bodies))


def replace_attributes(body: ToxicBody, **attributes: int) -> ToxicBody:
    return msgspec.structs.replace(body, attributes={**body.attributes, **attributes})


def realised(toxic: Toxic, probe: RoundTrip, bare_ms: float = 0.0) -> tuple[str, bool]:
    """What the link does with `toxic` on it, in words, and whether that is what its file says.

    `bare_ms` is its round trip without any toxic: a toxic without latency leaves it as it is, and an emulated machine
    answers late across any link.
    """
    if toxic.silences:
        try:
            return f"a round trip came back after {probe.answer_within(SILENCE_SECONDS):.1f} ms", False
        except TimeoutError:
            return f"nothing came back within {SILENCE_SECONDS:g} s", True
    if toxic.resets:
        reset = probe.typical(1) is None
        return ("its connections are ended" if reset else "its connections live on"), reset
    if not toxic.is_measured:
        return "no measurement of its kind exists", False
    trips = probe.pings()
    if not trips:
        return "nothing comes back across it", False
    # A busy machine lengthens a round trip, and shortens none: that nothing is added is told by the shortest.
    trip = median(trips) if toxic.round_trip_ms else min(trips)
    asked = toxic.round_trip_ms or min(trip, bare_ms)
    near = abs(trip - asked) <= toxic.jitter_ms + max(PROXY_MS, toxic.round_trip_ms * 0.05) and trip >= asked / 2
    said = f"round trip {trip:.1f} ms (asked {toxic.round_trip_ms} ms)"
    if not toxic.rate_kbps:
        return said, near
    rate = rate_of(probe, toxic.rate_kbps)
    proved = near and abs(rate / toxic.rate_kbps - 1) <= RATE_PROVED
    return f"{said}, {rate:.0f} KB/s (asked {toxic.rate_kbps} KB/s)", proved


@dataclass
class ToxicOnLink:
    """A toxic at work and what was measured of it; `fault()` is the evidence once the block has ended."""

    link: str
    toxic: str
    asked_ms: float
    tolerance_ms: float
    is_latency: bool = True
    before_ms: float | None = None
    after_ms: float | None = None
    trips: list[float] = field(default_factory=list)

    def fault(self) -> Fault:
        why = self._why_not_seen()
        return Fault(
            link=self.link,
            toxic=self.toxic,
            unit="ms",
            asked=self.asked_ms,
            before=_rounded(self.before_ms),
            during=spread(self.trips),
            after=_rounded(self.after_ms),
            seen=not why,
            why=why,
        )

    def _why_not_seen(self) -> str:
        asked = f"asked {self.asked_ms:g} ms on {self.link}"
        if not self.is_latency:
            return f"{self.toxic} is more than a latency: round trips do not prove it"
        if not self.trips:
            return f"{asked}, no round trip came back during the load"
        # Every single trip: a toxic that was gone for one second of ten has bent the figures as well.
        if min(self.trips) < self.asked_ms - self.tolerance_ms:
            return f"{asked}, link RTT was {min(self.trips):.1f} ms during the load"
        if spread(self.trips).p50 > self.asked_ms + self.tolerance_ms + PROXY_MS:
            return f"{asked}, link RTT was {spread(self.trips).p50:.1f} ms during the load (median)"
        for when, found in (("before", self.before_ms), ("after", self.after_ms)):
            if self.asked_ms > PROXY_MS and (found is None or found > self.asked_ms / 2):
                return f"{asked}, but the link did not come back to itself {when} it: {found} ms"
        return ""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@contextmanager
def toxic_on(wire: Wire, toxic: Toxic, asked: Toxic, probe: RoundTrip) -> Iterator[ToxicOnLink]:
    """Within the block `toxic` (calibrated from `asked`) acts on the link, watched all the time; afterwards it is off.

    Only the bodies that were put on are taken off. One that is gone already, behind the lab's back, is not an error
    here: the evidence tells.
    """
    # A toxic that does nothing must never be within the tolerance.
    varies = max(asked.round_trip_ms * SHARE, min(TIMERS_MS, asked.round_trip_ms / 2))
    tolerance = varies + asked.jitter_ms
    acting = ToxicOnLink(wire.name, asked.name, asked.round_trip_ms, tolerance, asked.is_latency, probe.typical())
    try:
        for body in toxic.bodies:
            wire.add(body)
        with probe.watching() as acting.trips:
            yield acting
        acting.trips += probe.pings(2)
    finally:
        for body in toxic.bodies:
            _remove_if_there(wire, body.name)
        acting.after_ms = probe.typical()


def _remove_if_there(wire: Wire, name: str) -> None:
    if name in {found["name"] for found in wire.toxics()}:
        wire.remove(name)
