"""Duplicates and reordering of the packets that a sender sends on a link, by netem in the sender's network namespace.

What one end sends passes netem as it leaves: on the devices of a container, and in a virtual machine on its guest's.
`netem.sh` has the steps; a line of its state is one effect.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.packets import LATE_MS, Packets
from replication_lab.model.lab.toxic import PACKET_DUPLICATE, PACKET_LOSS, PACKET_REORDER, Toxic, ToxicBody
from replication_lab.world.packets.namespace import Namespace, Refused, impossible, read, refused_here

STEPS = Path(__file__).with_suffix(".sh").read_text()
# The bands of a device's queue for links, as in netem.sh; the first band is for all other packets.
FIRST, LAST = 2, 16
ROOT = "4c:"
# What tc lists of a device, as JSON.
Listed = Sequence[dict[str, Any]]
WHAT = {PACKET_DUPLICATE: "duplicated", PACKET_REORDER: "reordered"}
# How far the kernel's 32 bits are from the share that was asked for, in %, and its clock's ticks from a delay in s.
NEAR = 0.001
_changing = threading.Lock()


@dataclass(frozen=True)
class NetemEffect:
    """One effect of a direction of a link, as a line of the state: the band that makes it, and the toxic's body."""

    band: int
    link: str
    body: ToxicBody

    def line(self) -> str:
        percent = f"{self.body.attributes['percent']:g}"
        return f"{self.band} {self.link} {self.body.stream} {self.body.type} {percent} {self.body.name}"


def _effect(line: str) -> NetemEffect:
    band, link, stream, kind, percent, name = line.split(" ")
    return NetemEffect(int(band), link, ToxicBody(name, kind, stream, {"percent": float(percent)}))


@dataclass(frozen=True)
class DeviceQueues:
    """What tc shows of a device: its queues, and the filters that lead to bands and their twins before the queue."""

    queues: Listed
    filters: dict[int, list[int]]
    twins: dict[int, list[int]]

    def netem(self, band: int) -> dict[str, Any] | None:
        """Return the netem of a band; None unless packets can get there."""
        if not any(each["kind"] == "prio" and each.get("handle") == ROOT and each.get("root") for each in self.queues):
            return None
        own = (each for each in self.queues if each.get("parent") == f"{ROOT}{band:x}" and each["kind"] == "netem")
        return next(own, None)


@dataclass(frozen=True)
class Shown:
    """The effects of a namespace, and its devices as they are now."""

    effects: tuple[NetemEffect, ...] = ()
    devices: tuple[DeviceQueues, ...] = ()

    def of(self, link: str, stream: str) -> list[NetemEffect]:
        return [each for each in self.effects if (each.link, each.body.stream) == (link, stream)]

    def is_complete(self, band: int, matches: int) -> bool:
        """Return whether every device has the band's netem, and all filters that lead there or count before it."""
        return bool(self.devices) and all(
            each.netem(band) is not None
            and len(each.filters.get(band, [])) == matches
            and len(each.twins.get(band, [])) == matches
            for each in self.devices
        )

    def counted(self, band: int, kind: str) -> Packets:
        """Return the packets of a band, and those of them that were duplicated or late."""
        before, within = (
            sum(sum(found.get(band, [])) for found in sides)
            for sides in ([each.twins for each in self.devices], [each.filters for each in self.devices])
        )
        if kind == PACKET_DUPLICATE:
            return Packets(before, within - before)
        # Netem counts a packet as requeued if it sends it at once, before the delayed ones.
        punctual = sum(found["requeues"] for each in self.devices if (found := each.netem(band)))
        return Packets(within, within - punctual)

    def percent(self, band: int, kind: str) -> float:
        """Return the smallest share that a netem of the band really has, in %."""
        return min((_percent(each.netem(band) or {}, kind) for each in self.devices), default=0.0)


def _percent(netem: dict[str, Any], kind: str) -> float:
    options = netem.get("options", {})
    if kind == PACKET_DUPLICATE:
        return round(100 * options.get("duplicate", {}).get("duplicate", 0), 3)
    late = 1000 * options.get("delay", {}).get("delay", 0)
    punctual = options.get("reorder", {}).get("reorder", 0)
    return round(100 * (1 - punctual), 3) if abs(late - LATE_MS) < NEAR and punctual else 0.0


def parsed(text: str) -> Shown:
    """Return the effects and devices in the output of `show`."""
    effects, *devices = re.split(r"^device .*$", text, flags=re.MULTILINE)
    shown = ([json.loads(line) for line in each.split("\n") if line] for each in devices)
    return Shown(tuple(map(_effect, effects.splitlines())), tuple(_device(*each) for each in shown))


def _device(twins: Listed = (), filters: Listed = (), queues: Listed = ()) -> DeviceQueues:
    """Return a device by the lists that `show` prints of it: fewer if it has gone meanwhile."""
    return DeviceQueues(queues, _counted(filters), _counted(twins))


def _counted(filters: Listed) -> dict[int, list[int]]:
    """Return how many packets matched all words of each filter, by band: without the kernel's counters none."""
    found: dict[int, list[int]] = {}
    for each in filters:
        if "flowid" in each.get("options", {}):
            found.setdefault(int(each["pref"]), []).append(int(each["options"].get("success", 0)))
    return found


def words(effects: Iterable[NetemEffect]) -> str:
    """Return the parameters of netem, which decides on each effect independently for each packet."""
    said = {each.body.type: float(each.body.attributes["percent"]) for each in effects}
    parts = []
    if PACKET_REORDER in said:
        parts.append(f"delay {LATE_MS}ms reorder {100 - said[PACKET_REORDER]:g}%")
    if PACKET_DUPLICATE in said:
        parts.append(f"duplicate {said[PACKET_DUPLICATE]:g}%")
    return " ".join(parts)


def _quoted(texts: Iterable[str]) -> str:
    return " ".join(f"'{text}'" for text in texts)


# --- one direction of a link ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """The filters that match the packets of a direction, and the destination of the lab's own datagrams.

    Without an address, the datagrams are sent to one that no machine has.
    """

    matches: tuple[str, ...]
    port: int
    address: str = ""


@dataclass(frozen=True)
class Sender:
    """Where the packets of one direction of a link leave; `told` asks Toxiproxy, and is called where that matters."""

    namespace: Namespace
    link: str
    stream: str
    told: Callable[[], Told]

    def bodies(self) -> list[tuple[ToxicBody, bool]]:
        """Return the effects in the kernel now, each with the share that it really has, and whether it is complete."""
        shown = self._shown()
        return [(self._as_it_is(each, shown), self._acts(each, shown)) for each in shown.of(self.link, self.stream)]

    def _as_it_is(self, effect: NetemEffect, shown: Shown) -> ToxicBody:
        body = effect.body
        percent = shown.percent(effect.band, body.type) if self._acts(effect, shown) else body.attributes["percent"]
        near = abs(percent - body.attributes["percent"]) <= NEAR
        return body if near else ToxicBody(body.name, body.type, body.stream, {"percent": percent})

    def _acts(self, effect: NetemEffect, shown: Shown) -> bool:
        return shown.is_complete(effect.band, len(self.told().matches))

    def packets(self, body: ToxicBody) -> Packets | None:
        """Return the counters of an effect since it was put on; None if any part of it is not there."""
        shown = self._shown()
        found = [each for each in shown.of(self.link, self.stream) if each.body.name == body.name]
        if not found or not self._acts(found[0], shown):
            return None
        return shown.counted(found[0].band, body.type)

    def put(self, body: ToxicBody) -> None:
        """Add an effect, in place of the one of its kind; LabError that names what the kernel lacks if it cannot."""
        with _changing:
            shown = self._shown()
            own = shown.of(self.link, self.stream)
            band = own[0].band if own else _free(shown)
            wanted = [*(each for each in own if each.body.type != body.type), NetemEffect(band, self.link, body)]
            try:
                self._set(band, wanted, shown)
            except Refused as error:
                self._set(band, [], shown)
                raise impossible(WHAT[body.type], str(error)) from error

    def remove(self, name: str) -> None:
        with _changing:
            shown = self._shown()
            own = shown.of(self.link, self.stream)
            if any(each.body.name == name for each in own):
                self._set(own[0].band, [each for each in own if each.body.name != name], shown)

    def _set(self, band: int, wanted: Sequence[NetemEffect], shown: Shown) -> None:
        others = [each for each in shown.effects if each.band != band]
        change = f"put {band} '{words(wanted)}' {_quoted(self.told().matches)}" if wanted else f"drop {band}"
        lines = _quoted(each.line() for each in (*others, *wanted))
        self.namespace.run(f"{STEPS}\n{change}\nremember {lines}")

    def burst(self, datagrams: int) -> None:
        """Send datagrams through netem."""
        told = self.told()
        read(self.namespace, f"{STEPS}\nburst '{told.address}' {told.port} {datagrams}", "counted")

    def _shown(self) -> Shown:
        return parsed(read(self.namespace, f"{STEPS}\nshow", "counted"))


def _free(shown: Shown) -> int:
    used = {each.band for each in shown.effects}
    band = next(each for each in count(FIRST) if each not in used)
    if band > LAST:
        raise LabError(f"{LAST - FIRST + 1} directions of links already duplicate or reorder packets", "fewer of them")
    return band


def refuse_unable(toxics: Iterable[Toxic]) -> None:
    """Raise LabError, before anything starts, if a toxic needs netem and this host's kernel has none or no counters."""
    wanted = [body for toxic in toxics for body in toxic.of_packets if body.type != PACKET_LOSS]
    if not wanted:
        return
    effects = [NetemEffect(FIRST, "trial", wanted[0])]
    trial = f"LAB_DEVICES=lo\n{STEPS}\nput {FIRST} '{words(effects)}' 'match u8 0 0'\ncounted"
    if said := refused_here(trial):
        raise impossible(WHAT[wanted[0].type], said)
