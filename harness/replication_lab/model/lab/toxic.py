"""Toxics: named network conditions, read from the files in toxics/. Each holds the bodies of Toxiproxy's own API."""

import re
from dataclasses import dataclass, replace

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error, refuse_unknown, unknown_name

# The toxic of images/toxiproxy: one rate for all connections of a link in one direction. The lab adds the link's name.
LINK_RATE = "link_bandwidth"
# A delay in whole milliseconds. Where Toxiproxy has EXACT_LATENCY, which counts microseconds, that takes its place.
LATENCY = "latency"
EXACT_LATENCY = "exact_latency"
# A share of the packets that the kernel loses, sends twice, or delays until others have overtaken them; no toxics of
# Toxiproxy. What each is called in a condition.
PACKET_LOSS, PACKET_DUPLICATE, PACKET_REORDER = "packet_loss", "packet_duplicate", "packet_reorder"
PACKET_KINDS = {PACKET_LOSS: "loss", PACKET_DUPLICATE: "duplicate", PACKET_REORDER: "reorder"}
# Below the least share a proof would need more than 100 000 packets; above the most, TCP connections end.
LEAST_PERCENT, MOST_PERCENT = 0.1, 50
# The name of such a body is part of shell commands and of the kernel's rules.
_PLAIN = re.compile(r"[\w+=,.%-]+", re.ASCII)
# Toxiproxy 2.12's toxics and their attributes, with the smallest value: a zero would stop some streams for good.
ATTRIBUTES: dict[str, dict[str, int]] = {
    "latency": {"latency": 0, "jitter": 0},
    "bandwidth": {"rate": 1},
    LINK_RATE: {"rate": 1},
    "slow_close": {"delay": 0},
    "timeout": {"timeout": 0},
    "reset_peer": {"timeout": 0},
    "slicer": {"average_size": 1, "size_variation": 0, "delay": 0},
    "limit_data": {"bytes": 0},
}


class ToxicBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One toxic on one stream of a proxy: the body of POST /proxies/NAME/toxics."""

    name: str
    type: str
    stream: str
    attributes: dict[str, int | float]
    toxicity: float = 1.0

    def reversed(self) -> "ToxicBody":
        """Return the same toxic on the other stream, for a connection that was opened from the other end."""
        other = {"upstream": "downstream", "downstream": "upstream"}[self.stream]
        return msgspec.structs.replace(self, stream=other)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    toxics: list[ToxicBody]


@dataclass(frozen=True)
class Toxic:
    """A network condition: what it is about, and the bodies that make it on a link."""

    name: str
    about: str
    bodies: tuple[ToxicBody, ...]

    def _sum_of(self, attribute: str) -> float:
        """Return the sum over both streams: latencies of the two directions make the round trip, in ms."""
        return sum(body.attributes.get(attribute, 0) for body in self.bodies if body.type == LATENCY)

    @property
    def round_trip_ms(self) -> float:
        """The delay that the toxic adds to a round trip across its link, in milliseconds; whole as it is asked for."""
        return self._sum_of("latency")

    @property
    def jitter_ms(self) -> float:
        """The most by which one round trip may differ from `round_trip_ms`, in milliseconds."""
        return self._sum_of("jitter")

    @property
    def shortest_trip_ms(self) -> float:
        """The minimum that the toxic adds to a round trip: a commit that waits for one cannot take less."""
        return max(0, self.round_trip_ms - self.jitter_ms)

    @property
    def rate_kbps(self) -> int | None:
        """KB/s of the slower direction; None if nothing limits it."""
        rates = [int(body.attributes["rate"]) for body in self.bodies if body.type in ("bandwidth", LINK_RATE)]
        return min(rates, default=None)

    @property
    def link_rates(self) -> tuple[ToxicBody, ...]:
        """The bodies that limit all connections of a link together, a direction each."""
        return tuple(body for body in self.bodies if body.type == LINK_RATE)

    @property
    def of_packets(self) -> tuple[ToxicBody, ...]:
        """The bodies that the kernel makes: packets that are lost, duplicated or reordered, a direction each."""
        return tuple(body for body in self.bodies if body.type in PACKET_KINDS)

    @property
    def of_streams(self) -> "Toxic":
        """The same toxic without its effects on packets: what Toxiproxy does."""
        others = tuple(body for body in self.bodies if body.type not in PACKET_KINDS)
        return self if others == self.bodies else replace(self, bodies=others)

    @property
    def is_latency(self) -> bool:
        """Whether round trips prove all that Toxiproxy does: it is only latency, for every connection."""
        return all(body.type == "latency" and body.toxicity == 1 for body in self.of_streams.bodies)

    @property
    def is_measured(self) -> bool:
        """Whether the lab can measure every body of it: either kind of rate, but not both at once."""
        kinds = {body.type for body in self.of_streams.bodies}
        one_rate = kinds <= {"latency", "bandwidth"} or kinds <= {"latency", LINK_RATE}
        return one_rate and all(body.toxicity == 1 for body in self.bodies)

    @property
    def silences(self) -> bool:
        """Whether nothing comes back across the link although its connections stay open."""
        return any(body.type == "timeout" for body in self.bodies)

    @property
    def resets(self) -> bool:
        """Whether connections across the link are ended."""
        return any(body.type == "reset_peer" for body in self.bodies)


# Prepared at import: msgspec crashes (SIGSEGV) if several threads are the first to use a type at the same moment.
msgspec.json.Decoder(_File)


def parse_toxic(name: str, text: str | bytes, path: str = "") -> Toxic:
    """Return the Toxic of the JSON of its file; LabError names the key or the value that is wrong."""
    path = path or f"toxics/{name}.json"
    with as_lab_error(
        msgspec.DecodeError,
        f"{path} cannot be read",
        'the keys "about" and "toxics"; each toxic needs "name", "type", "stream", "attributes" and "toxicity"',
        f"compare with toxics/wan-85ms.json, then: ./lab toxic --check {name}",
    ):
        file = msgspec.json.decode(text, type=_File)
    for body in file.toxics:
        _check(path, body)
    _check_once(path, file.toxics)
    return Toxic(name, file.about, tuple(file.toxics))


def _check(path: str, body: ToxicBody) -> None:
    where = f"{path}: {body.name}"
    if body.type not in ATTRIBUTES and body.type not in PACKET_KINDS:
        raise unknown_name(f"toxic type in {path}", body.type, [*ATTRIBUTES, *PACKET_KINDS])
    if body.stream not in ("upstream", "downstream"):
        raise LabError(f"{where} has stream {body.stream!r}", "upstream or downstream")
    if not 0 < body.toxicity <= 1:
        raise LabError(f"{where} has toxicity {body.toxicity:g}", "more than 0 and at most 1")
    if body.type in PACKET_KINDS:
        _check_packets(where, body)
        return
    for attribute, value in body.attributes.items():
        refuse_unknown(f"attribute of {body.type} in {path}", attribute, ATTRIBUTES[body.type])
        if not isinstance(value, int):
            raise LabError(
                f"{where} has {attribute} {value:g}", f"a whole number: Toxiproxy refuses fractions of {attribute}"
            )
        if value < ATTRIBUTES[body.type][attribute]:
            raise LabError(f"{where} has {attribute} {value:g}", f"{ATTRIBUTES[body.type][attribute]} or more")


def _check_packets(where: str, body: ToxicBody) -> None:
    if body.toxicity != 1:
        raise LabError(f"{where} has toxicity {body.toxicity:g}", f"1: a {body.type} acts on every connection")
    if not _PLAIN.fullmatch(body.name):
        raise LabError(f"{where}: its name has other characters than a {body.type} may have", "letters, digits and -")
    if body.attributes.keys() != {"percent"}:
        said = ", ".join(body.attributes) or "no attributes"
        raise LabError(f"{where} has {said}", 'one attribute, "percent"')
    if not LEAST_PERCENT <= body.attributes["percent"] <= MOST_PERCENT:
        raise LabError(f"{where} has percent {body.attributes['percent']:g}", f"{LEAST_PERCENT:g} to {MOST_PERCENT}")


def _check_once(path: str, bodies: list[ToxicBody]) -> None:
    """Raise LabError for two effects of a kind on packets in a direction: the second would replace the first."""
    seen: set[tuple[str, str]] = set()
    for body in bodies:
        if body.type in PACKET_KINDS and (body.type, body.stream) in seen:
            raise LabError(f"{path} has two of {body.type} {body.stream}", "one in each direction")
        seen.add((body.type, body.stream))
