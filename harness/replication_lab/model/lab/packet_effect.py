"""Effects on packets as a condition writes them: `loss=2%`, `duplicate=1%↓`, `reorder=5%`; the kernel makes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.toxic import LEAST_PERCENT, MOST_PERCENT, PACKET_KINDS, ToxicBody

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


def _is_refused(text: str) -> bool:
    """Return whether a part is an effect on packets that the lab does not make."""
    found = _STARTS.match(text)
    return found is not None and found[1] not in TYPES


def parse_packet_effect(what: str, text: str) -> PacketEffect:
    """Return the effect; LabError that begins with `what` if it cannot be read, or could not be proved."""
    if _is_refused(text):
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
