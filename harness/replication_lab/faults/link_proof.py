"""The proof of a link: it has the toxics that it should have, and round trips, rates and packets are as they ask."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from replication_lab.faults.toxic_calibration import rate_of, timers_of
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.packets import HAPPENED, Packets, packets_needed
from replication_lab.model.lab.toxic import (
    PACKET_DUPLICATE,
    PACKET_KINDS,
    PACKET_LOSS,
    PACKET_REORDER,
    Toxic,
    ToxicBody,
)
from replication_lab.model.record.measurement import SeenToxic, Spread
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world.packets.link import RunningLink

# How many times the necessary packets the lab sends by itself, so that the interval is narrow.
PLENTY = 2
REMOVED = {
    kind: f"the rule that {does} packets was removed"
    for kind, does in ((PACKET_LOSS, "loses"), (PACKET_DUPLICATE, "duplicates"), (PACKET_REORDER, "reorders"))
}


def said_of_packets(toxic: Toxic) -> str:
    """Return "2 % of the packets lost and 5 % late"."""
    shares = {body.type: _percent(body) for body in toxic.of_packets}
    said = [f"{percent:g} % {HAPPENED[kind]}" for kind, percent in shares.items()]
    return " and ".join(said).replace(" %", " % of the packets", 1)


def realised_packets(toxic: Toxic, link: RunningLink) -> tuple[str, bool]:
    """Send datagrams through the rules of each effect; return the result in words, and whether it is as requested."""
    said, ok = [], True
    for body in toxic.of_packets:
        found, proved = _realised_in(body, link)
        said.append(f"{WAYS[body.stream]} {found}")
        ok = ok and proved
    asked = " and ".join(dict.fromkeys(f"{_percent(body):g} %" for body in toxic.of_packets))
    return f"{'; '.join(said)} (requested {asked})", ok


def _realised_in(body: ToxicBody, link: RunningLink) -> tuple[str, bool]:
    before = link.packets(body)
    if before is None:
        return REMOVED[body.type], False
    link.send_packets(body, PLENTY * packets_needed(_percent(body)))
    after = link.packets(body)
    if after is None:
        return REMOVED[body.type], False
    found = after.since(before)
    why = found.why_not(_percent(body), body.type)
    return why or found.text(body.type), not why


def _percent(body: ToxicBody) -> float:
    return float(body.attributes["percent"])


@dataclass
class PacketWatch:
    """The packets of a load that crossed a link in one direction, counted from when this is made until `end`."""

    link: RunningLink
    body: ToxicBody
    before: Packets | None = field(init=False)
    after: Packets | None = None
    # What the receiving end's TCP had counted out of order before the load, and counted during it, for a reordering.
    had: int | None = field(init=False)
    out_of_order: int | None = None

    def __post_init__(self) -> None:
        self.before = self.link.packets(self.body)
        self.had = self._out_of_order()

    def end(self) -> None:
        self.after = self.link.packets(self.body)
        now = self._out_of_order()
        self.out_of_order = now - self.had if now is not None and self.had is not None else None

    def _out_of_order(self) -> int | None:
        return self.link.out_of_order(self.body) if self.body.type == PACKET_REORDER else None

    def fault(self, link: str, toxic: str) -> SeenToxic:
        """Return the evidence: the share of packets with its interval, and how many packets were seen."""
        found = self.after.since(self.before) if self.after and self.before else None
        why = self._why(found)
        kind = "" if self.body.type == PACKET_LOSS else f"{HAPPENED[self.body.type]} "
        return SeenToxic(
            link=link,
            toxic=toxic,
            unit=f"% of packets {kind}{WAYS[self.body.stream]}",
            asked=_percent(self.body),
            during=_spread(found) if found else None,
            seen=not why,
            why=why,
        )

    def _why(self, found: Packets | None) -> str:
        kind, way = self.body.type, WAYS[self.body.stream]
        asked = f"requested {_percent(self.body):g} % {PACKET_KINDS[kind]} {way} on {self.link.name}"
        if found is None:
            return f"{asked}, but {REMOVED[kind]} during the load"
        if why := found.why_not(_percent(self.body), kind):
            return f"{asked}: {why}"
        if self.out_of_order is not None and self.out_of_order <= 0:
            return f"{asked}: {found.hit} packets were late, but none was overtaken: nothing was sent soon after them"
        return ""


def _spread(found: Packets) -> Spread | None:
    if found.seen <= 0 or not 0 <= found.hit <= found.seen:
        return None
    low, high = found.interval()
    return Spread(min=round(low, 3), p50=round(found.percent, 3), max=round(high, 3), n=found.seen)


# What the proxy itself adds to a round trip is less than this.
PROXY_MS = 3.0
# By how much a calibrated round trip may differ, as a share.
NEAR_SHARE = 0.05
SILENCE_SECONDS = 0.5
# On a link with a rate, connections take turns by pieces of this time, but never smaller than this size
# (images/toxiproxy/link_bandwidth.go).
TURN_MS, PIECE_KB = 5.0, 1.5
# In this number of round trips some differ by half of the jitter, but rarely by all of it: both directions seldom
# reach their extremes at the same time.
JITTER_PINGS, JITTER_SHARE = 20, 0.5


def prove_link(
    probe: RoundTrip,
    toxic: Toxic,
    bare_ms: float | None = None,
    measured: Sequence[float] = (),
    beside_ms: float | None = None,
    in_use: bool = False,
) -> Proof:
    """Prove that a link has exactly the toxics of a condition, and that what crosses it is as they ask.

    `bare_ms` is the round trip without any toxic, if it is known. `measured` are round trips in ms since the toxic was
    put on the link, if there are any. `beside_ms` is the round trip of a link to whose other toxics this one was added.
    A link `in_use` may be slower than requested: the load of its clients makes it so.
    """
    link, names = probe.link, {body.name for body in toxic.bodies}
    found, ok = realised(toxic, probe, bare_ms, measured, beside_ms, in_use)
    has = {body.name for body in link.toxics()}
    if not link.carries(names):
        found, ok = "the toxic was removed" if not names & has else "the toxic was removed from one of its ports", False
    elif has != names and beside_ms is None:
        found, ok = f"the toxics {', '.join(sorted(has)) or 'none'}", False
    bare = f"; {three_digits(bare_ms)} ms without it" if bare_ms is not None else ""
    if link.crosses_sites:
        bare += "; part of it is a real network, the rest is emulated" if toxic.bodies else "; a real network"
    also = "is" if beside_ms is None else "also has"
    return Proof(f"link {link.name} {also} {toxic.name}", found + bare, ok, expected_of(toxic))


def expected_of(toxic: Toxic) -> str:
    if toxic.silences or toxic.resets:
        return "no answer across it"
    parts = [
        *([f"a round trip of {three_digits(toxic.round_trip_ms)} ms"] if toxic.round_trip_ms else []),
        *([f"{toxic.rate_kbps} KB/s"] if toxic.rate_kbps else []),
        *([said_of_packets(toxic)] if toxic.of_packets else []),
    ]
    return " and ".join(parts) or "no delay"


def realised(
    toxic: Toxic,
    probe: RoundTrip,
    bare_ms: float | None = None,
    measured: Sequence[float] = (),
    beside_ms: float | None = None,
    in_use: bool = False,
) -> tuple[str, bool]:
    """Measure a link with `toxic` on it; return the result in words, and whether it is as `prove_link` expects.

    A toxic without latency does not change the round trip, and an emulated machine answers late across any link.
    Round trips that were `measured` are not measured again, unless their variation counts.
    """
    streams = toxic.of_streams
    if streams.silences or streams.resets:
        found = [_nothing_passes(streams, probe)]
    elif not streams.is_measured:
        found = [("the lab cannot measure a toxic of this kind", False)]
    else:
        trips = probe.pings(JITTER_PINGS) if streams.jitter_ms else measured or probe.pings()
        found = [("no round trip completes across it", False)]
        if trips:
            found = [_round_trips(trips, streams, probe.link, bare_ms, beside_ms, in_use)]
            found += [realised_rate(streams, probe)] if streams.rate_kbps else []
    found += [realised_packets(toxic, probe.link)] if toxic.of_packets else []
    return ", ".join(said for said, _ in found), all(ok for _, ok in found)


def _round_trips(
    trips: Sequence[float],
    toxic: Toxic,
    link: RunningLink,
    bare_ms: float | None,
    beside_ms: float | None,
    in_use: bool,
) -> tuple[str, bool]:
    # A busy machine lengthens a round trip and never shortens it, so the shortest one proves the link's own delay.
    trip, delay = median(trips) if toxic.jitter_ms else min(trips), toxic.round_trip_ms
    beside = beside_ms or 0.0
    asked = beside + delay if delay or beside_ms is not None else min(trip, trip if bare_ms is None else bare_ms)
    # The round trip of the link before may have been measured in a busy moment, so it was longer then than it is.
    least = asked - toxic.jitter_ms - max(timers_of(link).added, asked * NEAR_SHARE)
    if beside and not delay:
        # Such a toxic does not show in round trips. Those that the link had before are witnessed.
        least = 0.0
    # A ping may wait for a piece of another connection's data, once in each direction.
    turns = 2 * max(TURN_MS, 1000 * PIECE_KB / toxic.rate_kbps) if toxic.rate_kbps else 0.0
    most = asked + toxic.jitter_ms + max(PROXY_MS, delay * NEAR_SHARE) + turns
    near = (
        least <= trip
        and (not delay or trip - beside >= delay / 2)
        and (in_use or beside_ms is not None or trip <= most)
    )
    asked_for = f"requested {three_digits(delay)} ms"
    if not toxic.jitter_ms:
        return f"round trip {three_digits(trip)} ms ({asked_for})", near
    said = f"{from_to(trips)}, median {three_digits(trip)} ms ({asked_for} ± {three_digits(toxic.jitter_ms)} ms)"
    return f"round trip {said}", near and varies_enough(trips, toxic.jitter_ms)


def _shared(link: RunningLink, toxic: Toxic) -> str:
    """Return what a rate holds for: all connections together or each by itself, on one port or several."""
    ports = len(link.model.proxies)
    if toxic.link_rates:
        return " for all connections together" + (f" of its {ports} ports" if ports > 1 else "")
    return " for each connection" + (f" on each of its {ports} ports" if ports > 1 else "")


def _nothing_passes(toxic: Toxic, probe: RoundTrip) -> tuple[str, bool]:
    if toxic.resets:
        reset = probe.ping() is None
        return ("its connections end" if reset else "its connections stay open"), reset
    try:
        return f"an answer came after {three_digits(probe.answer_within(SILENCE_SECONDS))} ms", False
    except TimeoutError:
        return f"no answer within {SILENCE_SECONDS:g} s", True


def varies_enough(trips: Sequence[float], jitter_ms: float) -> bool:
    """Return whether round trips vary as with a jitter; with a constant delay they do not."""
    return max(trips) - min(trips) >= jitter_ms * JITTER_SHARE


def from_to(trips: Sequence[float]) -> str:
    return f"{three_digits(min(trips))} to {three_digits(max(trips))} ms"


# A rate is proved when it is within this share of the requested one.
RATE_PROVED = 0.1
# A busy machine makes a link slower and never faster; a slow measurement is repeated.
TRIES = 3
WAYS = {"downstream": "down", "upstream": "up"}


def realised_rate(toxic: Toxic, probe: RoundTrip) -> tuple[str, bool]:
    """Return the measured rate of the link in words, and whether it is the requested one.

    The rate of a link is measured by several connections at once in each direction, the rate of each connection by one.
    """
    asked, shared = toxic.rate_kbps or 0, _shared(probe.link, toxic)
    if not toxic.link_rates:
        rate = rate_of(probe, asked, toxic.round_trip_ms)
        return f"{rate:.0f} KB/s (requested {asked} KB/s){shared}", abs(rate / asked - 1) <= RATE_PROVED
    said, ok = [], True
    for body in toxic.link_rates:
        asked, rate, tries = int(body.attributes["rate"]), 0.0, 0
        while rate < asked * (1 - RATE_PROVED) and tries < TRIES:
            rate, tries = max(rate, probe.sum_of_rates(body, toxic.round_trip_ms)), tries + 1
        said.append(f"{rate:.0f} KB/s {WAYS[body.stream]}")
        ok = ok and abs(rate / asked - 1) <= RATE_PROVED
    asked_for = " and ".join(dict.fromkeys(str(body.attributes["rate"]) for body in toxic.link_rates))
    found = f"{', '.join(said)} (requested {asked_for} KB/s)"
    if not all(map(probe.link.shares, toxic.link_rates)):
        return f"{found}, but the ports of the link do not share the rate{shared}", False
    return f"{found}{shared}", ok
