"""A toxic on a link: all of its bodies are added, calibrated until the link is as requested, and removed together."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.lab.toxic import LATENCY, Toxic, ToxicBody
from replication_lab.probes.commit_latency import LINK_MS
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world.packets.link import RunningLink


@dataclass(frozen=True)
class Timers:
    """What the timers of a Toxiproxy do to round trips, in ms."""

    # The difference between two latencies that can be set.
    step: float
    # Round trips up to this are not calibrated.
    short: float
    # What they usually add, without the bare link. A toxic that is this much shorter mostly needs no correction.
    usual: float
    # The most that they add, besides the bare link; the rest comes from a busy machine.
    added: float
    # By how much the median of round trips exceeds the shortest on a quiet machine, and the same as a share of them.
    queued: float
    queued_share: float
    # A round trip that is this near, or this near as a share, is not corrected.
    near: float
    near_share: float
    # By how much a round trip under load may be shorter than an idle link's: what timers and link add may be gone then.
    shorter: float
    # A correction never takes more than this share of the latency: what an idle link adds may be gone under load.
    most_share: float = 0.5


# Toxiproxy's own, in whole milliseconds, which an idle program keeps up to a millisecond too late in each direction.
# They are a fifth of a short round trip, and add less under load: a corrected link would be too fast, and one of a
# millisecond would have no delay at all.
WHOLE = Timers(1, short=10, usual=2, added=3.0, queued=2.0, queued_share=0, near=0.5, near_share=0, shorter=2.0)
# The kernel's, in the lab's own image.
EXACT = Timers(
    0.001, short=0, usual=0.2, added=0.4, queued=0.2, queued_share=0.05, near=0.1, near_share=0.01, shorter=LINK_MS
)
CORRECTIONS, RATE_NEAR = 5, 0.04
# How many round trips are measured; more of those up to this many ms, and of a bare link's: their errors count more.
PINGS, MORE_PINGS, CHEAP_MS = 5, 15, 20
# A rate is measured with this many KB, or for this many seconds if that is shorter.
RATE_KB, RATE_SECONDS = 8_000, 4
# More than any link carries. It stands for the rate of an answer that came sooner than its round trip.
FASTEST_KBPS = 10_000_000


def timers_of(link: RunningLink) -> Timers:
    return EXACT if link.latency_step_ms < 1 else WHOLE


def put(link: RunningLink, toxic: Toxic) -> None:
    """Put a toxic on a link in place of all others there; restore the others if Toxiproxy refuses it."""
    before = link.toxics()
    clear(link)
    _add(link, toxic, before)


def _add(link: RunningLink, toxic: Toxic, before: Iterable[ToxicBody] = ()) -> None:
    """Put a toxic on a link that has none; if Toxiproxy refuses it, put `before` there instead."""
    try:
        for body in toxic.bodies:
            link.add(body)
    except LabError:
        clear(link)
        for body in before:
            link.add(body)
        raise


def exchange(link: RunningLink, bodies: Iterable[ToxicBody]) -> None:
    """Give a link these toxics in place of its own; at no moment has it neither.

    A link without its delay for a moment would let through all commits that wait.
    """
    wanted = {body.name: body for body in bodies}
    had = {body.name: body for body in link.toxics()}
    changed = {name for name, body in had.items() if name in wanted and body != wanted[name]}
    for name in changed:
        link.remove(name)
    for name, body in wanted.items():
        if name not in had or name in changed:
            link.add(body)
    # An effect on packets has already replaced the one of its kind.
    for name in {body.name for body in link.toxics()} - wanted.keys():
        link.remove(name)


def clear(link: RunningLink) -> None:
    """Remove every toxic from a link."""
    for body in link.toxics():
        link.remove(body.name)


def calibrated(link: RunningLink, asked: Toxic, probe: RoundTrip) -> Toxic:
    """Correct the toxic by the proxy's errors, so that the link's round trip and rate are as requested.

    The link itself takes time, and the proxy's timers add some. The real rate of a connection is lower than requested,
    because Toxiproxy sleeps slightly too long after each 32 KB. The returned toxic is on the link.
    """
    return calibrated_and_measured(link, asked, probe)[0]


def calibrated_and_measured(link: RunningLink, asked: Toxic, probe: RoundTrip) -> tuple[Toxic, list[float]]:
    """Do the same; return also the round trips in ms that were measured since the link's last change, if any were."""
    clear(link)
    toxic, trips = _calibrated(link, asked.of_streams, probe)
    if not asked.of_packets:
        return toxic, trips
    # Last: a lost packet would delay the pings by which a latency is calibrated.
    for body in asked.of_packets:
        link.add(body)
    return replace(toxic, bodies=(*toxic.bodies, *asked.of_packets)), []


def _calibrated(link: RunningLink, asked: Toxic, probe: RoundTrip) -> tuple[Toxic, list[float]]:
    bare = min(probe.pings(MORE_PINGS), default=0.0) if asked.round_trip_ms else 0.0
    timers = timers_of(link)
    if link.crosses_sites:
        if asked.round_trip_ms and bare > asked.round_trip_ms:
            raise LabError(
                f"{asked.name} is a round trip of {three_digits(asked.round_trip_ms)} ms, and the network of "
                f"{link.name} takes {three_digits(bare)} ms without a toxic",
                "a longer round trip, or none: the network's own",
                f"--toxic {link.name}=none",
            )
        # All of the bare link is a network that is there under load, too.
        timers = replace(timers, most_share=1)
    # Without the timers of whole milliseconds a link adds to a toxic what it takes without one.
    usual = timers.usual + (0 if timers is WHOLE else bare)
    toxic = corrected_by(asked, asked, asked.round_trip_ms + usual, bare, timers)
    _add(link, toxic)
    for _ in range(CORRECTIONS):
        trips = _pings(asked, probe)
        corrected = _corrected(toxic, asked, probe, trips, bare, timers)
        if corrected is toxic:
            return toxic, trips
        # Replace only the bodies that were corrected: each request is repeated for every port of the link.
        for old, new in zip(toxic.bodies, corrected.bodies, strict=True):
            if new != old:
                link.remove(old.name)
                link.add(new)
        toxic = corrected
    return toxic, []


def _pings(asked: Toxic, probe: RoundTrip) -> list[float]:
    """Return round trips in ms with a latency on the link; none for a toxic that is not calibrated by them."""
    if asked.silences or asked.resets or not asked.round_trip_ms:
        return []
    if trips := probe.pings(PINGS if asked.round_trip_ms > CHEAP_MS else MORE_PINGS):
        return trips
    expected = f"a round trip of {three_digits(asked.round_trip_ms)} ms"
    raise LabError(f"link {probe.link.name} does not answer", expected, "./lab status")


def _corrected(
    toxic: Toxic, asked: Toxic, probe: RoundTrip, trips: list[float], bare_ms: float, timers: Timers
) -> Toxic:
    """Return a toxic that brings the link closer to the request; the same one if it is close."""
    if asked.silences or asked.resets:
        return toxic
    if trips:
        corrected = corrected_by(toxic, asked, undisturbed(min(trips), median(trips), timers), bare_ms, timers)
        if corrected is not toxic:
            return corrected
    # The rate of a link is exact. While other connections use it, the share of one shows nothing.
    if asked.rate_kbps and not asked.link_rates:
        share = asked.rate_kbps / rate_of(probe, asked.rate_kbps, asked.round_trip_ms)
        return _widened(toxic, share) if abs(share - 1) > RATE_NEAR else toxic
    return toxic


def rate_of(probe: RoundTrip, asked_kbps: int, round_trip_ms: float = 0) -> float:
    """Return the measured KB/s of a link that should carry `asked_kbps`, without the time of the toxic's round trip."""
    kilobytes = min(RATE_KB, asked_kbps * RATE_SECONDS)
    seconds = kilobytes / probe.kilobytes_per_second(kilobytes)
    return kilobytes / max(seconds - round_trip_ms / 1000, kilobytes / FASTEST_KBPS)


def undisturbed(shortest_ms: float, typical_ms: float, timers: Timers) -> float:
    """Return the typical round trip as it would be on a quiet machine.

    A short lack of CPU lengthens most round trips, but not the shortest. A toxic corrected for it would be too short as
    soon as the machine is quiet again.
    """
    return min(typical_ms, shortest_ms + max(timers.queued, timers.queued_share * shortest_ms))


def corrected_by(toxic: Toxic, asked: Toxic, found_ms: float, bare_ms: float, timers: Timers) -> Toxic:
    """Return the toxic with its latency corrected by the measured round trip; the same toxic if it is close enough.

    It is shortened at most by the link's own round trip, `bare_ms`, plus the delay of the proxy's timers. Correcting
    the delay of a busy machine would make the link too fast as soon as the machine is quiet again. Both directions are
    corrected: members of a group ask and answer each other on two links, so the same direction of both counts.
    """
    if asked.round_trip_ms <= timers.short or asked.jitter_ms:
        return toxic
    least = asked.round_trip_ms - min(bare_ms + timers.added, timers.most_share * asked.round_trip_ms)
    trip_ms = max(toxic.round_trip_ms - (found_ms - asked.round_trip_ms), least)
    if abs(trip_ms - toxic.round_trip_ms) <= max(timers.near, timers.near_share * asked.round_trip_ms):
        return toxic
    return _with_round_trip(toxic, asked, trip_ms, timers.step)


def _widened(toxic: Toxic, share: float) -> Toxic:
    """Return the toxic with both directions' rates multiplied by `share`."""
    return replace(
        toxic,
        bodies=tuple(
            replace_attributes(body, rate=round(body.attributes["rate"] * share)) if body.type == "bandwidth" else body
            for body in toxic.bodies
        ),
    )


def _with_round_trip(toxic: Toxic, asked: Toxic, trip_ms: float, step_ms: float) -> Toxic:
    """Return the toxic with latencies that add up to `trip_ms`, in the proportion that was asked for."""
    bodies, steps, given, counted = list(toxic.bodies), round(trip_ms / step_ms), 0, 0.0
    for place, wanted in enumerate(asked.bodies):
        if wanted.type == LATENCY:
            counted += wanted.attributes["latency"]
            until = round(steps * counted / asked.round_trip_ms)
            bodies[place], given = replace_attributes(bodies[place], latency=round((until - given) * step_ms, 3)), until
    return replace(toxic, bodies=tuple(bodies))


def replace_attributes(body: ToxicBody, **attributes: float) -> ToxicBody:
    return msgspec.structs.replace(body, attributes={**body.attributes, **attributes})
