"""A world without Docker, sockets or waiting: a small seeded model of a source, its replicas and the wires between.

`FakeWorld` is to the unit tests what `runner.World` is to real servers; `clock.timer` has to be replaced by its clock.
The model knows what the experiments ask of a lab and nothing else, so it grows with them: a Galera node is a server
whose commit waits for all of its links, a disk is a bound on how fast `commit` may be called. What can go wrong in the
middle of a load is a function of the lab (below), handed in as `meanwhile`.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median
from typing import Any, NamedTuple

import msgspec

from harness.errors import LabError
from harness.record import Noise
from harness.topology import Topology
from harness.toxic import ToxicBody
from harness.world import catalogue
from harness.world.sql import Dialect, Replication, SemiSync, dialects

# In ms: a commit with nobody to wait for (slow, so that a second of load is few rows), a bare round trip, what the
# proxy adds to it, and what its latency toxic adds to what was asked.
COMMIT, BARE, PROXY, OVER = 0.6, 0.15, 0.1, 1.0
# Sigma of the logarithm: of one load against the next, and of one commit or round trip against the next.
OF_LOADS, OF_COMMITS = 0.01, 0.002
# What a link carries without a toxic, and how much of a toxic's rate comes out, in KB/s and as a share.
CARRIES, OF_RATE = 500_000.0, 0.9
# A load's trouble comes at this commit of it: late enough for figures from before, early enough for every load.
TROUBLE_AT = 3

Meanwhile = Callable[["FakeLab", int], None]


class FakeClock:
    """Time that passes only where somebody waits. Every thread has its own, as every client of a server has."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def timer(self) -> float:
        """Seconds, in place of `clock.timer`."""
        return getattr(self._of_thread, "seconds", 0.0)

    def reach(self, seconds: float) -> None:
        self._of_thread.seconds = seconds


class FakeWire:
    """A link: the toxics on it decide its round trip. A body whose name is in `refused` is not taken."""

    address = ("127.0.0.1", 0)

    def __init__(self, name: str, dice: Random | None = None):
        self.name, self.refused, self._dice = name, set(), dice or Random(1)
        self._bodies: dict[str, ToxicBody] = {}
        self._enabled = True

    def toxics(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(body) for body in self._bodies.values()]

    def add(self, body: ToxicBody) -> None:
        if body.name in self._bodies or body.name in self.refused:
            raise LabError(f"Toxiproxy refused the toxic {body.name} on {self.name}")
        self._bodies[body.name] = body

    def remove(self, toxic: str) -> None:
        if self._bodies.pop(toxic, None) is None:
            raise LabError(f"Toxiproxy knows no toxic {toxic} on {self.name}")

    def enable(self, enabled: bool) -> None:
        self._enabled = enabled

    def enabled(self) -> bool:
        return self._enabled

    def round_trip_ms(self) -> float | None:
        """One round trip now; None where nothing comes back."""
        if not self._enabled or any(body.type in ("timeout", "reset_peer") for body in self._bodies.values()):
            return None
        asked = sum(body.attributes.get("latency", 0) for body in self._bodies.values())
        return (BARE + PROXY + asked + (OVER if asked else 0)) * self._dice.lognormvariate(0, OF_COMMITS)

    def kilobytes_per_second(self) -> float:
        rates = [body.attributes["rate"] for body in self._bodies.values() if body.type == "bandwidth"]
        return min(rates) * OF_RATE if rates else CARRIES


class FakeRoundTrip:
    """Pings a wire as `probes.round_trip.RoundTrip` does, but watches a load by its first and its last moments."""

    def __init__(self, wire: FakeWire):
        self.wire = wire

    def close(self) -> None:
        pass

    def ping(self) -> float | None:
        return self.wire.round_trip_ms()

    def pings(self, count: int = 5) -> list[float]:
        return [trip for trip in (self.ping() for _ in range(count)) if trip is not None]

    def typical(self, count: int = 5) -> float | None:
        trips = self.pings(count)
        return median(trips) if trips else None

    def answer_within(self, seconds: float) -> float:
        trip = self.ping()
        if trip is None:
            raise TimeoutError(f"nothing came back across {self.wire.name} within {seconds:g} s")
        return trip

    def kilobytes_per_second(self, kilobytes: int = 8_000) -> float:
        return self.wire.kilobytes_per_second()

    @contextmanager
    def watching(self) -> Iterator[list[float]]:
        trips = self.pings()
        try:
            yield trips
        finally:
            trips += self.pings()


class Commit(NamedTuple):
    """When others can read a row and when its writer is answered, in ms after the writer sent it."""

    shown: float
    answered: float


@dataclass
class FakeServer:
    """A node: the same questions and orders as `sql.Server` takes, kept as the state that they would leave."""

    name: str
    lab: "FakeLab"
    semisync_state: SemiSync
    dials: tuple[str, int] | None
    runs: bool = True
    differs: bool = False
    globals_: dict[str, str] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect:
        return dialects()[catalogue.engines()[self.lab.engine].dialect]

    def version(self) -> str:
        return f"{self.lab.engine}-fake"

    def settings(self, *names: str) -> dict[str, str]:
        return {name: self.globals_[name] for name in names if name in self.globals_}

    def set_global(self, **settings: str | int) -> None:
        self.globals_ |= {name: str(value) for name, value in settings.items()}

    def execute(self, *statements: str) -> None:
        for statement in statements:
            if statement.startswith("INSERT"):
                self.lab.commit()

    def tables(self, database: str) -> list[str]:
        return [f"{database}.foo"]

    def checksum(self, _table: str) -> int:
        return int(self.differs)

    def semisync(self) -> SemiSync:
        return self.semisync_state

    def set_semisync(self, enabled: bool, wait_point: str | None = None, timeout_ms: int | None = None) -> None:
        state = replace(self.semisync_state, enabled=enabled, active=enabled)
        self.semisync_state = replace(
            state, wait_point=wait_point or state.wait_point, timeout_ms=timeout_ms or state.timeout_ms
        )

    def fall_back(self) -> None:
        """What a source does whose timeout passed without an acknowledgement."""
        state = self.semisync_state
        self.semisync_state = replace(state, active=False, fallbacks=state.fallbacks + 1)

    def replication(self) -> Replication | None:
        if self.dials is None:
            return None
        host, port = self.dials
        return Replication(connected=self.runs, applying=self.runs, host=host, port=port, error="", lag_seconds=0)

    def start_replica(self) -> None:
        self.runs = True

    def stop_replica(self) -> None:
        self.runs = False

    def replicate_from(self, host: str, port: int) -> None:
        self.dials, self.runs = (host, port), True

    def position(self) -> dict[str, Any]:
        return {"position": "0-1-1"}

    def wait_for(self, position: dict[str, Any], seconds: int = 50) -> None:
        pass

    @contextmanager
    def session(self, database: str = "lab") -> Iterator["FakeSession"]:
        yield FakeSession(self.lab)


@dataclass(frozen=True)
class FakeSession:
    """A connection and its own cursor: it inserts a row, looks for the row inserted, or asks for the last number."""

    lab: "FakeLab"

    @contextmanager
    def cursor(self) -> Iterator["FakeSession"]:
        yield self

    def execute(self, statement: str) -> int:
        if statement.startswith("INSERT"):
            self._write()
        elif "WHERE" in statement:
            self.lab.clock.reach(self.lab.shown.get())
        return 1

    def fetchone(self) -> tuple[int]:
        return (0,)

    def _write(self) -> None:
        began = shown = self.lab.clock.timer()
        try:
            commit = self.lab.commit()
            shown = began + commit.shown / 1000
            self.lab.clock.reach(began + commit.answered / 1000)
        finally:
            self.lab.shown.put(shown)  # whoever looks for the row must not look for ever when the writer failed


class FakeLab:
    """A topology that came up. Commits go through `commit`, whichever client makes them."""

    password = "fake"

    def __init__(self, world: "FakeWorld", topology: Topology, engine: str):
        self.name, self.topology, self.engine = f"fake-{topology.name}", topology, engine
        self.clock, self.shown = world.clock, queue.SimpleQueue()
        self._world, self._dice = world, Random(f"{world.seed}:{engine}")
        self._wires = {link.name: FakeWire(link.name, self._dice) for link in topology.links}
        self._servers = {node.name: self._server(node.name) for node in topology.nodes}
        self._pace, self._commits, self._load = 1.0, 0, 0

    def _server(self, name: str) -> FakeServer:
        has_choice = "wait_point" in catalogue.engines()[self.engine].features
        state = SemiSync(False, False, 1, 0, 0, 0, "AFTER_COMMIT" if has_choice else None, 10_000)
        into = next((link for link in self.topology.links if link.target == name), None)
        return FakeServer(name, self, state, ("toxiproxy", into.port) if into else None)

    def server(self, node: str) -> FakeServer:
        return self._servers[self.topology.node(node).name]

    def wire(self, link: str) -> FakeWire:
        return self._wires[self.topology.link(link).name]

    def image_digests(self) -> dict[str, str]:
        return {node.name: "sha256:fake" for node in self.topology.nodes}

    def put(self, service: str, path: str, content: bytes) -> None:
        pass

    def place(self, *sites: tuple[str, ...]) -> dict[str, str]:
        return {}

    def load_begins(self) -> None:
        """From here on commits are counted towards the trouble of this load."""
        self._world.loads += 1
        self._load, self._commits = self._world.loads, 0
        self._pace = self._dice.lognormvariate(0, OF_LOADS)

    def why_ended(self) -> str:
        return ""

    def run(self, service: str, *command: str) -> str:
        """What the clients of workloads/sequential_inserts.lua would have printed."""
        options = dict(part.removeprefix("--").split("=", 1) for part in command if part.startswith("--"))
        clients, rows, seconds = int(options["threads"]), int(options["events"]), float(options["time"])
        think = int(options.get("think", 0)) / 1000
        lines = []
        for _ in range(clients):
            mine = self._client(clients, rows // clients, seconds * 1000, think)
            ended = (sum(mine) + think * (len(mine) - 1)) / 1000
            lines.append(f"client 0.000000 {ended:.6f} {' '.join(str(round(ms * 1000)) for ms in mine)}\n")
        return "".join(lines)

    def _client(self, clients: int, rows: int, milliseconds: float, think: float) -> list[float]:
        """One client's latencies in ms: of so many rows, or until its time is over."""
        mine, spent = [], 0.0
        while len(mine) < rows if rows else spent < milliseconds:
            mine.append(self.commit(clients).answered)
            spent += mine[-1] + think
        return mine

    def commit(self, clients: int = 1) -> Commit:
        """One commit on the source, one of `clients` at once; moves its counters as a real one would."""
        self._commits += 1
        if self._load and self._commits == TROUBLE_AT:
            self._world.meanwhile(self, self._load)
        own = COMMIT * self._pace * self._dice.lognormvariate(0, OF_COMMITS) * (1 + (clients - 1) / 10)
        source = self.server(self.topology.source.name)
        state = source.semisync_state
        if not state.enabled:
            return Commit(own, own)
        waited = self._acknowledged_after() if state.active else None
        if waited is None:
            source.semisync_state = replace(state, unacknowledged=state.unacknowledged + 1)
            return Commit(own, own)
        source.semisync_state = replace(state, acknowledged=state.acknowledged + 1)
        return Commit(own + waited if state.wait_point == "AFTER_SYNC" else own, own + waited)

    def _acknowledged_after(self) -> float | None:
        """The round trip to the replica that answers first, in ms; None where none is connected."""
        trips = []
        for link in self.topology.links_from(self.topology.source.name):
            found = self.server(link.target).replication()
            if found and found.connected:
                direct = found.host == self.topology.source.name
                trips.append(BARE if direct else self.wire(link.name).round_trip_ms())
        return min((trip for trip in trips if trip is not None), default=None)


@dataclass(frozen=True)
class FakeNoise:
    """A noise meter: busy or not, as it was told."""

    noisy: bool

    def read(self) -> Noise:
        if self.noisy:
            return Noise(foreign_cpu=0.6, steal=0.0, quiet=False, why="other programs used 60% of the CPUs (limit 25%)")
        return Noise(foreign_cpu=0.02, steal=0.0)


def nothing(_lab: FakeLab, _load: int) -> None:
    """An undisturbed load."""


@dataclass
class FakeWorld:
    """The methods of `runner.World`. `noisy` and `meanwhile` get the number of the load, from 1."""

    seed: int = 1
    noisy: Callable[[int], bool] = lambda _load: False
    meanwhile: Meanwhile = nothing
    clock: FakeClock = field(default_factory=FakeClock)
    loads: int = 0
    came_up: list[str] = field(default_factory=list)
    taken_down: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, Any]:
        return {"kernel": "fake", "cpus": 2, "docker": "none"}

    def now(self) -> str:
        return "2030-01-01T12:00:00.000+00:00"

    def make_ready(self, engines: list[str], tell: Callable[[str], None]) -> None:
        for engine in engines:
            catalogue.engine(engine)

    @contextmanager
    def lab(self, topology: str, engine: str) -> Iterator[FakeLab]:
        self.came_up.append(engine)
        try:
            yield FakeLab(self, catalogue.topology(topology), engine)
        finally:
            self.taken_down.append(engine)

    def round_trip(self, lab: FakeLab, link: str) -> FakeRoundTrip:
        return FakeRoundTrip(lab.wire(link))

    def noise(self, lab: FakeLab) -> FakeNoise:
        lab.load_begins()
        return FakeNoise(self.noisy(lab._load))


# -- what can go wrong in the middle of a load -----------------------------------------------------------------------


def fall_back(lab: FakeLab, _load: int = 0) -> None:
    """The source gives up waiting and goes on asynchronously."""
    source = lab.server(lab.topology.source.name)
    if source.semisync().enabled:
        source.fall_back()


def switch_semisync_off(lab: FakeLab, _load: int = 0) -> None:
    """Somebody else sets the variable."""
    lab.server(lab.topology.source.name).set_semisync(False)


def take_toxics_off(lab: FakeLab, _load: int = 0) -> None:
    """Somebody else heals every link."""
    for link in lab.topology.links:
        wire = lab.wire(link.name)
        for body in wire.toxics():
            wire.remove(body["name"])


def diverge(lab: FakeLab, _load: int = 0) -> None:
    """A replica's rows become others than its source's, without an error of replication."""
    for link in lab.topology.links:
        lab.server(link.target).differs = True


def fail_load(_lab: FakeLab, _load: int = 0) -> None:
    """The load generator ends with an error."""
    raise LabError("`sysbench` in load ended with 1:\n  FATAL: mysql_drv_query() returned error 2013", "exit status 0")


def interrupt(_lab: FakeLab, _load: int = 0) -> None:
    """Somebody sends SIGTERM."""
    raise KeyboardInterrupt("SIGTERM")


def crash(_lab: FakeLab, _load: int = 0) -> None:
    """The harness itself fails."""
    raise ZeroDivisionError("a defect of the harness")
