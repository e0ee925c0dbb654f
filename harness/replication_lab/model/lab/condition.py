"""Conditions written as text: `40ms±5ms`, `40ms↓10ms↑30ms`, `100mbit`, `40ms+20mbit+loss=2%`; each becomes a toxic."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.packets import TYPES, PacketEffect, all_different, is_packet_effect, parse_packet_effect
from replication_lab.model.lab.toxic import LINK_RATE, PACKET_KINDS, Toxic, ToxicBody

# The proxy's own timers vary by up to 2 ms: half of the jitter must exceed that, or it cannot be proved.
LEAST_JITTER_MS = 4
# Bounds within which a ping comes back before its probe gives up, and is not delayed by the rate itself.
MOST_MS, SLOWEST_KBPS, FASTEST_KBPS = 2000, 16, 125_000
# Toxiproxy counts a rate in KB/s of 1000 bytes.
KBIT_PER_KB = 8
MILLISECONDS = {"ms": 1, "s": 1000}
KILOBITS = {"kbit": 1, "mbit": 1000, "gbit": 1_000_000}
SPELLINGS = {"+-": "±", ",down=": "↓", ",up=": "↑", ",down": "↓", ",up": "↑"}
FORMS = "such as 40ms, 40ms+-5ms, 40ms,down=10ms,up=30ms, 100mbit, 40ms+20mbit, loss=2% or duplicate=1%"
NEXT = "./lab toxic"

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-zµ/]*)")
_TRIP = re.compile(r"(?P<trip>[^±↓↑]+)(?:±(?P<jitter>[^±↓↑]+))?(?:↓(?P<down>[^±↓↑]+)↑(?P<up>[^±↓↑]+))?")
# A direction after an effect on packets stands alone; after a delay it has its own milliseconds.
_EFFECT_WAYS = (("%↓", "%,down"), ("%↑", "%,up"))


@dataclass(frozen=True)
class Condition:
    """A link's delay in each direction and its jitter, in ms, its rate in KB/s, and its effects on packets; 0: none."""

    down_ms: int = 0
    up_ms: int = 0
    jitter_ms: int = 0
    rate_kbps: int = 0
    effects: tuple[PacketEffect, ...] = ()

    @property
    def trip_ms(self) -> int:
        return self.down_ms + self.up_ms

    @property
    def name(self) -> str:
        """The shortest spelling: texts with the same meaning have the same name."""
        return "+".join(filter(None, (self._delay, self._rate, *(each.name for each in self.effects))))

    @property
    def _delay(self) -> str:
        if not self.trip_ms:
            return ""
        jitter = f"±{self.jitter_ms}ms" if self.jitter_ms else ""
        ways = "" if self.down_ms == self.trip_ms // 2 else f"↓{self.down_ms}ms↑{self.up_ms}ms"
        return f"{self.trip_ms}ms{jitter}{ways}"

    @property
    def _rate(self) -> str:
        kilobits = self.rate_kbps * KBIT_PER_KB
        unit = next((unit for unit in ("gbit", "mbit") if kilobits % KILOBITS[unit] == 0), "kbit")
        return f"{kilobits // KILOBITS[unit]}{unit}" if kilobits else ""

    @property
    def about(self) -> str:
        """A sentence that describes the condition."""
        said = []
        if self.trip_ms:
            jitter = f", each up to {self.jitter_ms} ms shorter or longer" if self.jitter_ms else ""
            said.append(f"{self.trip_ms} ms round trip ({self.down_ms} ms down, {self.up_ms} ms up){jitter}")
        if self.rate_kbps:
            said.append(f"{self.rate_kbps} KB/s in each direction, for all connections together")
        said += [each.about for each in self.effects]
        return f"Condition: {'; '.join(said)}."

    def toxic(self) -> Toxic:
        """Return the toxic with this effect. Body names are plain ASCII, since they are part of Toxiproxy's URLs."""
        name = self._in_ascii()
        down_jitter = self.jitter_ms * self.down_ms // self.trip_ms if self.trip_ms else 0
        ways = (("down", self.down_ms, down_jitter), ("up", self.up_ms, self.jitter_ms - down_jitter))
        delays, rates = [], []
        for way, ms, by in ways:
            jitter = {"jitter": by} if by else {}
            if ms:
                delays.append(ToxicBody(f"{name}-delay-{way}", "latency", f"{way}stream", {"latency": ms, **jitter}))
            if self.rate_kbps:
                rates.append(ToxicBody(f"{name}-rate-{way}", LINK_RATE, f"{way}stream", {"rate": self.rate_kbps}))
        # The delay comes first: after the rate, Toxiproxy would count the time that data wait for the rate as delay.
        effects = [body for each in self.effects for body in each.bodies(name)]
        return Toxic(self.name, self.about, (*delays, *rates, *effects))

    def _in_ascii(self) -> str:
        name = self.name
        for sign, ascii_ in _EFFECT_WAYS:
            name = name.replace(sign, ascii_)
        for ascii_, sign in SPELLINGS.items():
            name = name.replace(sign, ascii_)
        return name


def is_written(text: str) -> bool:
    """Return whether a text can only be meant as a condition by number: a toxic's name begins with a letter."""
    return bool(text) and (not text[0].isalpha() or is_packet_effect(text))


def condition_of_body(body: str) -> Condition | None:
    """Return the condition by number that a body of this name belongs to; None for other bodies."""
    made = re.fullmatch(rf"(.+)-(?:delay|rate|{'|'.join(PACKET_KINDS.values())})-(?:down|up)", body)
    if not made or not is_written(made[1]):
        return None
    try:
        return parse_condition(made[1])
    except LabError:
        return None


def parse_condition(text: str, kind: str = "condition") -> Condition:
    """Return the condition that a text describes; `kind` is what an error calls it.

    LabError for anything that Toxiproxy cannot do exactly, or that the lab could not prove.
    """
    what, plain = f"{kind} {text!r}", text
    for ascii_, sign in SPELLINGS.items():
        plain = plain.replace(ascii_, sign)
    parts = plain.split("+")
    effects = [part for part in parts if is_packet_effect(part) or part.startswith(tuple(TYPES))]
    rates = [part for part in parts if (number := _NUMBER.fullmatch(part)) and number[2] in KILOBITS]
    delays = [part for part in parts if part not in (*effects, *rates)]
    for found, of in ((rates, "rates"), (delays, "round trips")):
        if len(found) > 1:
            raise LabError(f"{what} has {len(found)} {of}", f"one of each, {FORMS}", NEXT)
    on_packets = all_different(what, [parse_packet_effect(what, part) for part in effects])
    rate = _rate(what, rates[0]) if rates else 0
    down, up, jitter = _delay(what, delays[0]) if delays else (0, 0, 0)
    return Condition(down, up, jitter, rate, on_packets)


def _delay(what: str, text: str) -> tuple[int, int, int]:
    """Return (down, up, jitter) in ms."""
    found = _TRIP.fullmatch(text)
    if not found:
        raise LabError(f"{what} cannot be read", f"a condition {FORMS}", NEXT)
    trip = _milliseconds(what, found["trip"])
    if not 1 <= trip <= MOST_MS:
        expected = f"1 to {MOST_MS} ms; lan for a link without a delay"
        raise LabError(f"{what}: a round trip of {trip} ms is out of range", expected, NEXT)
    jitter = _milliseconds(what, found["jitter"]) if found["jitter"] else 0
    if found["jitter"] and not LEAST_JITTER_MS <= jitter <= trip:
        expected = f"at least {LEAST_JITTER_MS} ms, to differ from the proxy's own timers, and at most the round trip"
        raise LabError(f"{what}: a jitter of {jitter} ms is out of range", expected, NEXT)
    if not found["down"]:
        return trip // 2, trip - trip // 2, jitter
    down, up = _milliseconds(what, found["down"]), _milliseconds(what, found["up"])
    if down + up != trip:
        raise LabError(
            f"{what}: {down} ms down and {up} ms up are {down + up} ms",
            f"two directions that add up to {trip} ms",
            NEXT,
        )
    return down, up, jitter


def _milliseconds(what: str, text: str) -> int:
    value = _amount(what, text, MILLISECONDS)
    if value.denominator != 1:
        raise LabError(
            f"{what}: {text} is not a whole number of milliseconds",
            "whole milliseconds; Toxiproxy does not accept fractions",
            NEXT,
        )
    return int(value)


def _rate(what: str, text: str) -> int:
    """Return KB/s."""
    value = _amount(what, text, KILOBITS) / KBIT_PER_KB
    if value.denominator != 1:
        near = int(value) * KBIT_PER_KB
        expected = f"a multiple of {KBIT_PER_KB} kbit, such as {near}kbit or {near + KBIT_PER_KB}kbit"
        said = f"{what}: {text} is not a whole number of KB/s, and Toxiproxy does not accept fractions"
        raise LabError(said, expected, NEXT)
    if not SLOWEST_KBPS <= value <= FASTEST_KBPS:
        least, most = SLOWEST_KBPS * KBIT_PER_KB, FASTEST_KBPS * KBIT_PER_KB // KILOBITS["gbit"]
        expected = f"{least}kbit to {most}gbit, which the lab can measure"
        raise LabError(f"{what}: a rate of {value} KB/s is out of range", expected, NEXT)
    return int(value)


def _amount(what: str, text: str, units: dict[str, int]) -> Fraction:
    found = _NUMBER.fullmatch(text)
    if not found:
        raise LabError(f"{what} cannot be read", f"a condition {FORMS}", NEXT)
    if found[2] not in units:
        unit = f"unknown unit {found[2]!r}" if found[2] else f"{found[1]} has no unit"
        raise LabError(f"{what}: {unit}", "ms or s for a round trip; kbit, mbit or gbit for a rate", NEXT)
    return Fraction(found[1]) * units[found[2]]


def parse_links(texts: Iterable[str], option: str = "") -> dict[str, str]:
    """Return {link: condition} for LINK=CONDITION texts; LabError for a text without "=" and for a link given twice."""
    found: dict[str, str] = {}
    for text in texts:
        link, equals, condition = text.partition("=")
        said = f"{option} {text}".strip()
        if not equals or not link or not condition:
            lacks = "equals sign" if not equals else "condition" if link else "link"
            raise LabError(f"{said} has no {lacks}", "LINK=CONDITION, such as source-replica=40ms", NEXT)
        if link in found:
            raise LabError(f"{said}: {link} already has {found[link]}", "one condition for each link", NEXT)
        found[link] = condition
    return found
