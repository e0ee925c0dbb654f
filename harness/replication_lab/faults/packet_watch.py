"""The evidence of lost, duplicated and reordered packets: the kernel's counters, compared with the requested share."""

from dataclasses import dataclass, field

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
from replication_lab.world.packets.link import RunningLink

WAYS = {"downstream": "down", "upstream": "up"}
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
