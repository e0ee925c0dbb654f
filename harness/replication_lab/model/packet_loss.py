"""Packets that a rule of the kernel saw and dropped, and whether that proves the requested share."""

from dataclasses import dataclass

# The interval of a share is wrong once in a thousand proofs: a link of a cluster has many.
CONFIDENCE = 0.999
# A share is known well enough when its interval is within this factor of the request.
WITHIN = 3.0
# With this many expected drops the interval is nearly always narrow enough.
ENOUGH_DROPS = 40


def packets_needed(percent: float) -> int:
    """Return the number of packets that should prove a share."""
    return round(ENOUGH_DROPS * 100 / percent)


@dataclass(frozen=True)
class Packets:
    """The counters of a rule in one direction."""

    seen: int
    dropped: int

    def since(self, before: "Packets") -> "Packets":
        return Packets(self.seen - before.seen, self.dropped - before.dropped)

    @property
    def percent(self) -> float:
        return 100 * self.dropped / self.seen if self.seen else 0.0

    def interval(self) -> tuple[float, float]:
        """Return the exact binomial interval of the share, in % (Clopper and Pearson 1934)."""
        from scipy.special import betaincinv

        tail = (1 - CONFIDENCE) / 2
        low = betaincinv(self.dropped, self.seen - self.dropped + 1, tail) if self.dropped else 0.0
        kept = self.seen - self.dropped
        high = betaincinv(self.dropped + 1, kept, 1 - tail) if kept > 0 else 1.0
        return 100 * float(low), 100 * float(high)

    def text(self) -> str:
        """Return "2.1 % lost (84 of 4000 packets, 99.9 % interval 1.4–3.0 %)"."""
        low, high = self.interval() if self.seen > 0 else (0.0, 100.0)
        said = f"{self.percent:.3g} % lost ({self.dropped} of {self.seen} packets"
        return f"{said}, 99.9 % interval {low:.2g}–{high:.2g} %)"

    def why_not(self, percent: float) -> str:
        """Return why the counters do not prove this share of lost packets; an empty string if they do."""
        if self.seen < 0 or self.dropped < 0 or self.dropped > self.seen:
            return "the counters were reset, so the rule was replaced"
        low, high = self.interval() if self.seen else (0.0, 100.0)
        if not low <= percent <= high:
            return f"{self.text()}, not {percent:g} %"
        if low * WITHIN < percent or high > WITHIN * percent:
            needed = packets_needed(percent)
            return f"{self.seen} packets are too few to verify a loss of {percent:g} %; about {needed} are needed"
        return ""
