"""Effects on packets: as a condition writes them, and whether the kernel's counters prove the requested share."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.toxic import (
    LEAST_PERCENT,
    MOST_PERCENT,
    PACKET_DUPLICATE,
    PACKET_KINDS,
    PACKET_LOSS,
    PACKET_REORDER,
    ToxicBody,
)

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


NEXT = "./lab toxic"
# How much later a reordered packet arrives: long enough that a load sends others meanwhile.
LATE_MS = 10
TYPES = {kind: type_ for type_, kind in PACKET_KINDS.items()}
_WAYS = {"": "in each direction", "↓": "down", "↑": "up"}
_SAID = {
    "loss": "are lost",
    "duplicate": "arrive twice",
    "reorder": f"arrive {LATE_MS} ms late, after packets that were sent meanwhile,",
}
_PLURALS = {"loss": "losses", "duplicate": "duplicates", "reorder": "reorders"}
_STARTS = re.compile(r"(loss|dup|duplicate|reorder|corrupt)\s*=?\s*[0-9.]+\s*%")
_WRITTEN = re.compile(r"(loss|duplicate|reorder)=([0-9]+(?:\.[0-9]+)?)%([↓↑]?)")


@dataclass(frozen=True)
class PacketEffect:
    """What happens to a share of a link's packets, in one direction (↓ or ↑) or in both."""

    kind: str
    percent: float
    way: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}={self.percent:g}%{self.way}"

    @property
    def about(self) -> str:
        return f"{self.percent:g} % of the packets {_SAID[self.kind]} {_WAYS[self.way]}"

    def bodies(self, condition: str) -> list[ToxicBody]:
        """Return a body for each direction; their names begin with that of the condition."""
        return [
            ToxicBody(f"{condition}-{self.kind}-{way}", TYPES[self.kind], f"{way}stream", {"percent": self.percent})
            for way, sign in (("down", "↓"), ("up", "↑"))
            if self.way in ("", sign)
        ]


def is_packet_effect(text: str) -> bool:
    """Return whether a part of a condition can only be meant as an effect on packets."""
    return bool(_STARTS.match(text)) or text.startswith(tuple(f"{kind}=" for kind in TYPES))


def parse_packet_effect(what: str, text: str) -> PacketEffect:
    """Return the effect; LabError that begins with `what` if it cannot be read, or could not be proved."""
    known = _STARTS.match(text)
    if known and known[1] not in TYPES:
        why = "is written duplicate=" if text.startswith("dup") else "is not made by the lab, which could not prove it"
        raise LabError(f"{what}: {text} {why}", "loss=2%, duplicate=1%, reorder=5%, or another condition", NEXT)
    found = _WRITTEN.fullmatch(text)
    if not found:
        kind = next((kind for kind in TYPES if text.startswith(kind)), "loss")
        expected = f"{kind}=2%; {kind}=2%,down or {kind}=2%,up for one way"
        raise LabError(f"{what}: {text} cannot be read", expected, NEXT)
    kind, percent = found[1], float(found[2])
    if not LEAST_PERCENT <= percent <= MOST_PERCENT:
        expected = f"{LEAST_PERCENT:g}% to {MOST_PERCENT}%"
        expected += "; a cut for a link that loses everything" if kind == "loss" else ""
        raise LabError(f"{what}: a {kind} of {percent:g} % is out of range", expected, NEXT)
    return PacketEffect(kind, percent, found[3])


def all_different(what: str, effects: Sequence[PacketEffect]) -> tuple[PacketEffect, ...]:
    """Return the effects in the order of a condition's name; LabError if two are of the same kind."""
    for kind in TYPES:
        if (count := sum(each.kind == kind for each in effects)) > 1:
            raise LabError(f"{what} has {count} {_PLURALS[kind]}", "one of each, such as loss=2%+reorder=5%", NEXT)
    return tuple(sorted(effects, key=lambda each: list(TYPES).index(each.kind)))
