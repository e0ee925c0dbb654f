"""The links of the fake world, and what measures them."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from statistics import median
from types import SimpleNamespace
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import LINK_RATE, PACKET_KINDS, ToxicBody
from replication_lab.probes.round_trip import LANES
from replication_lab.world.packets.pinger import EchoConnection, Pinger

from tests.fakes.clock import FakeClock

# In ms: a bare round trip, what the proxy adds to it, and what its latency toxic adds to what was asked.
BARE, PROXY, OVER = 0.15, 0.1, 1.0
# Sigma of the logarithm of one round trip, or one commit, against the next.
OF_COMMITS = 0.002
# Drawn once: a run takes some hundred thousand of them.
VARIATION = tuple(map(Random(1).lognormvariate, [0] * 4096, [OF_COMMITS] * 4096))
# What a link carries without a toxic, and how much of a toxic's rate comes out, in KB/s and as a share.
CARRIES, OF_RATE = 500_000.0, 0.9


def varied(dice: Random) -> float:
    """Return the factor by which this round trip, or this commit, differs from the typical one."""
    return VARIATION[int(dice.random() * len(VARIATION))]


class FakeLink:
    """A link: the toxics on it decide its round trip. A body whose name is in `refused` is not taken.

    `answers` is what is at its far end.
    """

    address = ("127.0.0.1", 0)
    crosses_sites = False

    def __init__(self, name: str, dice: Random | None = None, answers: Any = None):
        self.name, self.refused, self._dice = name, set(), dice or Random(1)
        self.model = SimpleNamespace(proxies=(name,))
        # As of a Toxiproxy that is not the lab's own.
        self.latency_step_ms: float = 1
        # What a busy machine adds to each round trip.
        self.busy_ms = 0.0
        self._bodies: dict[str, ToxicBody] = {}
        self._enabled = True
        self.answers = answers
        # The packets between one reading of the counters and the next, and the share of them that is lost, in %, where
        # it is not the requested one.
        self.traffic, self.loses = 5000, None
        self._packets: dict[str, Packets] = {}
        # What TCP received out of order so far, and how many more between one reading and the next.
        self.overtaken, self.overtakes = 0, 3

    def far_end(self) -> Any:
        return self.answers

    def connect(self, answer_seconds: float) -> Pinger:
        return Pinger(self.far_end(), self.address, answer_seconds)

    def toxics(self) -> list[ToxicBody]:
        return list(self._bodies.values())

    def latency_ms(self) -> float:
        return sum(body.attributes["latency"] for body in self._bodies.values() if body.type == "latency")

    def add(self, body: ToxicBody) -> None:
        if body.name in self._bodies or body.name in self.refused:
            raise LabError(f"Toxiproxy refused the toxic {body.name} on {self.name}")
        if body.type in PACKET_KINDS:
            # As the kernel's rules: one of a kind for each direction.
            self._bodies = {k: v for k, v in self._bodies.items() if (v.type, v.stream) != (body.type, body.stream)}
        self._bodies[body.name] = body

    def remove(self, toxic: str) -> None:
        if self._bodies.pop(toxic, None) is None:
            raise LabError(f"Toxiproxy knows no toxic {toxic} on {self.name}")

    def cut(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def enabled(self) -> bool:
        return self._enabled

    def lets_through(self) -> bool:
        return self._enabled

    def carries(self, toxics: set[str]) -> bool:
        return toxics <= set(self._bodies)

    def round_trip_ms(self) -> float | None:
        """Return one round trip now; None if nothing comes back."""
        if not self._enabled:
            return None
        asked = jitter = 0
        for body in self._bodies.values():
            if body.type in ("timeout", "reset_peer"):
                return None
            asked += body.attributes.get("latency", 0)
            jitter += body.attributes.get("jitter", 0)
        asked += self._dice.uniform(-jitter, jitter) if jitter else 0
        return (BARE + PROXY + asked + (OVER if asked else 0) + self.busy_ms) * varied(self._dice)

    def kilobytes_per_second(self) -> float:
        """Return what one connection carries alone."""
        own = [body.attributes["rate"] * OF_RATE for body in self._bodies.values() if body.type == "bandwidth"]
        return min([*own, self._shared_rate()])

    def sum_of_rates(self) -> float:
        """Return what several connections carry together."""
        own = [body.attributes["rate"] * OF_RATE for body in self._bodies.values() if body.type == "bandwidth"]
        return min([*(LANES * rate for rate in own), self._shared_rate()])

    def _shared_rate(self) -> float:
        return min([CARRIES, *(body.attributes["rate"] for body in self._bodies.values() if body.type == LINK_RATE)])

    def carried(self, _body: ToxicBody) -> int:
        return 0

    def of_packets(self) -> list[ToxicBody]:
        return [body for body in self._bodies.values() if body.type in PACKET_KINDS]

    def packets(self, body: ToxicBody) -> Packets | None:
        if body.name not in self._bodies:
            return None
        counted = self._packets.get(body.name, Packets(0, 0))
        self.send_packets(body, self.traffic)
        return counted

    def send_packets(self, body: ToxicBody, count: int) -> None:
        counted = self._packets.get(body.name, Packets(0, 0))
        percent = body.attributes["percent"] if self.loses is None else self.loses
        lost = round(count * percent / 100)
        self._packets[body.name] = Packets(counted.seen + count, counted.hit + lost)

    def out_of_order(self, _body: ToxicBody) -> int | None:
        self.overtaken += self.overtakes
        return self.overtaken

    def shares(self, body: ToxicBody) -> bool:
        return body.name in self._bodies and self._bodies[body.name].type == LINK_RATE


class FakeProxies:
    """Toxiproxy with a topology's links, and those that are made."""

    def __init__(self, topology: Topology):
        self.known = {link.name: {"listen": f"[::]:{link.port}", "upstream": link.upstream} for link in topology.links}
        self.toxics: list[tuple[str, str]] = []

    def proxies(self) -> dict[str, dict[str, str]]:
        return self.known

    def create(self, name: str, listen: str, upstream: str) -> None:
        self.known[name] = {"listen": listen, "upstream": upstream}

    def add(self, proxy: str, body: ToxicBody) -> None:
        self.toxics.append((proxy, body.name))


class OneToxiproxy:
    """A lab on one engine: all its nodes dial the same Toxiproxy, which reaches each by its name."""

    toxiproxy: FakeProxies

    def proxied(self) -> dict[str, dict[str, str]]:
        return self.toxiproxy.proxies()

    def toxiproxy_beside(self, _node: str) -> FakeProxies:
        return self.toxiproxy

    def server_for(self, source: str, _dialler: str) -> str:
        return f"{source}:3306"


class FakeEcho(EchoConnection):
    """A far end that answers after the link's round trip; time passes meanwhile."""

    def __init__(self, link: FakeLink, clock: FakeClock):
        self._link, self._clock = link, clock

    def connect(self, address: tuple[str, int], answer_seconds: float) -> "FakeEcho":
        try:
            self.ping()
        except TimeoutError as error:
            raise LabError(f"the echo service does not answer: {error}") from error
        return self

    def ping(self) -> None:
        trip = self._link.round_trip_ms()
        if trip is None:
            raise TimeoutError("no answer")
        self._clock.pause(trip / 1000)

    def long_answer(self, size: int) -> None:
        self._clock.pause(size / 1000 / self._link.kilobytes_per_second())

    def close(self) -> None:
        pass


class FakeRoundTrip:
    """Pings a link as `probes.round_trip.RoundTrip` does, but watches a load by its first and its last moments."""

    def __init__(self, link: FakeLink):
        self.link = link

    def close(self) -> None:
        pass

    def ping(self) -> float | None:
        return self.link.round_trip_ms()

    def pings(self, count: int = 5) -> list[float]:
        return [trip for trip in (self.ping() for _ in range(count)) if trip is not None]

    def typical(self, count: int = 5) -> float | None:
        trips = self.pings(count)
        return median(trips) if trips else None

    def answer_within(self, seconds: float) -> float:
        trip = self.ping()
        if trip is None:
            raise TimeoutError(f"no answer across {self.link.name} within {seconds:g} s")
        return trip

    def kilobytes_per_second(self, _kilobytes: int) -> float:
        return self.link.kilobytes_per_second()

    def sum_of_rates(self, _body: ToxicBody, _round_trip_ms: int) -> float:
        return self.link.sum_of_rates()

    @contextmanager
    def watching(self) -> Iterator[list[float]]:
        trips = self.pings()
        try:
            yield trips
        finally:
            trips += self.pings()
