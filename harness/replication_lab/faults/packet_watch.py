"""The evidence of a loss of packets: the counters of the kernel's rules, compared with the requested share."""

from dataclasses import dataclass, field

from replication_lab.model.packet_loss import Packets, packets_needed
from replication_lab.model.record import Fault, Spread
from replication_lab.model.toxic import Toxic, ToxicBody
from replication_lab.world.docker.link import RunningLink

WAYS = {"downstream": "down", "upstream": "up"}
# How many times the necessary packets the lab sends by itself, so that the interval is narrow.
PLENTY = 2


def realised_loss(toxic: Toxic, link: RunningLink) -> tuple[str, bool]:
    """Send datagrams through the rules of a loss; return the result in words, and whether it is the requested share."""
    said, ok = [], True
    for body in toxic.losses:
        found, proved = _realised_in(body, link)
        said.append(f"{WAYS[body.stream]} {found}")
        ok = ok and proved
    return f"{'; '.join(said)} (requested {_percent(toxic.losses[0]):g} %)", ok


def _realised_in(body: ToxicBody, link: RunningLink) -> tuple[str, bool]:
    before = link.packets(body)
    if before is None:
        return "the rule that loses packets was removed", False
    link.send_packets(body, PLENTY * packets_needed(_percent(body)))
    after = link.packets(body)
    if after is None:
        return "the rule that loses packets was removed", False
    found = after.since(before)
    why = found.why_not(_percent(body))
    return why or found.text(), not why


def _percent(body: ToxicBody) -> float:
    return float(body.attributes["percent"])


@dataclass
class LossWatch:
    """The packets of a load that crossed a link in one direction, counted from when this is made until `end`."""

    link: RunningLink
    body: ToxicBody
    before: Packets | None = field(init=False)
    after: Packets | None = None

    def __post_init__(self) -> None:
        self.before = self.link.packets(self.body)

    def end(self) -> None:
        self.after = self.link.packets(self.body)

    def fault(self, link: str, toxic: str) -> Fault:
        """Return the evidence: the share of lost packets with its interval, and how many packets were seen."""
        found = self.after.since(self.before) if self.after and self.before else None
        why = self._why(found)
        return Fault(
            link=link,
            toxic=toxic,
            unit=f"% of packets {WAYS[self.body.stream]}",
            asked=_percent(self.body),
            during=_spread(found) if found else None,
            seen=not why,
            why=why,
        )

    def _why(self, found: Packets | None) -> str:
        asked = f"requested {_percent(self.body):g} % loss {WAYS[self.body.stream]} on {self.link.name}"
        if found is None:
            return f"{asked}, but the rule that loses packets was removed during the load"
        why = found.why_not(_percent(self.body))
        return f"{asked}: {why}" if why else ""


def _spread(found: Packets) -> Spread | None:
    if found.seen <= 0 or not 0 <= found.dropped <= found.seen:
        return None
    low, high = found.interval()
    return Spread(min=round(low, 3), p50=round(found.percent, 3), max=round(high, 3), n=found.seen)
