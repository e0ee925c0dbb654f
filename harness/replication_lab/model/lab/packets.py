"""Counters of packets, and whether they prove that a requested share was lost, duplicated or delayed."""

from dataclasses import dataclass

from replication_lab.model.lab.toxic import PACKET_DUPLICATE, PACKET_LOSS, PACKET_REORDER

# The interval of a share is wrong once in ten thousand proofs: a drill on one link may have eighteen of them.
CONFIDENCE = 0.9999
# A share is known well enough when its interval is within this factor of the request.
WITHIN = 3.0
# With twice as many expected packets of that share, which the lab sends, the interval is too wide once in ten thousand
# times.
ENOUGH = 40
# What happened to a packet, by the kind of toxic.
HAPPENED = {PACKET_LOSS: "lost", PACKET_DUPLICATE: "duplicated", PACKET_REORDER: "late"}
NOUNS = {PACKET_LOSS: "loss", PACKET_DUPLICATE: "duplication", PACKET_REORDER: "reordering"}


def packets_needed(percent: float) -> int:
    """Return the number of packets that should prove a share."""
    return round(ENOUGH * 100 / percent)


@dataclass(frozen=True)
class Packets:
    """Counters of a rule in one direction: `seen` packets, of which `hit` were lost, duplicated or delayed."""

    seen: int
    hit: int

    def since(self, before: "Packets") -> "Packets":
        return Packets(self.seen - before.seen, self.hit - before.hit)

    @property
    def percent(self) -> float:
        return 100 * self.hit / self.seen if self.seen else 0.0

    def interval(self) -> tuple[float, float]:
        """Return the exact binomial interval of the share, in % (Clopper and Pearson 1934)."""
        from scipy.special import betaincinv

        tail = (1 - CONFIDENCE) / 2
        low = betaincinv(self.hit, self.seen - self.hit + 1, tail) if self.hit else 0.0
        kept = self.seen - self.hit
        high = betaincinv(self.hit + 1, kept, 1 - tail) if kept > 0 else 1.0
        return 100 * float(low), 100 * float(high)

    def text(self, kind: str = PACKET_LOSS) -> str:
        """Return "2.1 % lost (84 of 4000 packets, 99.99 % interval 1.3–3.1 %)"."""
        low, high = self.interval() if self.seen > 0 else (0.0, 100.0)
        said = f"{self.percent:.3g} % {HAPPENED[kind]} ({self.hit} of {self.seen} packets"
        return f"{said}, {100 * CONFIDENCE:g} % interval {low:.2g}–{high:.2g} %)"

    def why_not(self, percent: float, kind: str = PACKET_LOSS) -> str:
        """Return why the counters do not prove this share; an empty string if they do."""
        if self.seen < 0 or self.hit < 0 or self.hit > self.seen:
            return "the counters were reset, so the rule was replaced"
        low, high = self.interval() if self.seen else (0.0, 100.0)
        if not low <= percent <= high:
            return f"{self.text(kind)}, not {percent:g} %"
        if low * WITHIN < percent or high > WITHIN * percent:
            needed = packets_needed(percent)
            few = f"{self.seen} packets are too few to verify a {NOUNS[kind]} of {percent:g} %"
            return f"{few}; about {needed} are needed"
        return ""
