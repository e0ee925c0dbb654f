"""A toxic on a link: put on whole, calibrated until the link is as asked, and taken off to the last body."""

from dataclasses import replace
from statistics import median
from typing import Any

import msgspec

from replication_lab.model.errors import LabError
from replication_lab.model.toxic import Toxic, ToxicBody
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world.toxiproxy import Wire

# As short a round trip is left as its file says: what an idle proxy's timers add is gone under load, a fifth of it, and
# who made up for it would have a link that is too short then; one of a millisecond would be none.
SHORT_MS = 10
# By how much the median of a link's round trips lies above the shortest where the machine is quiet.
QUEUED_MS = 2.0
CORRECTIONS, PINGS, RATE_NEAR = 5, 5, 0.04
# A rate is measured by so many KB, or for so many seconds.
RATE_KB, RATE_SECONDS = 8_000, 4


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
