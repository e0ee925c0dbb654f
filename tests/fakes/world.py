"""A world without Docker, sockets or waiting: a small seeded model of a source, its replicas and the wires between.

`FakeWorld` is to the unit tests what `runner.World` is to real servers; `clock.timer` has to be replaced by its clock.
The model knows what the experiments ask of a lab and nothing else, so it grows with them: a disk is a bound on how fast
`commit` may be called. A Galera node is a server whose commit waits for all of its links; of two nodes that change one
row at the same time the later one loses. What can go wrong in the middle of a load is a function of the lab (below),
handed in as `meanwhile`.
"""

import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median
from typing import Any, NamedTuple

import msgspec
import pymysql
from replication_lab.model.errors import LabError
from replication_lab.model.record import Noise
from replication_lab.model.topology import Topology
from replication_lab.model.toxic import ToxicBody
from replication_lab.world import catalogue
from replication_lab.world.disks.overlay import volume_name
from replication_lab.world.echo import EchoConnection
from replication_lab.world.mysql.server import Dialect, Galera, Progress, Redo, Replication, SemiSync, dialects

from tests.fakes.disks import FakeArrayContainer, FakeDisk, FakeRace, fake_arrays
from tests.fakes.drbd import FakeResource
from tests.fakes.slap import CHOICE, SLAPS, FakeGrouping

# In ms: a commit with nobody to wait for (slow, so that a second of load is few rows), a bare round trip, what the
# proxy adds to it, and what its latency toxic adds to what was asked.
COMMIT, BARE, PROXY, OVER = 0.6, 0.15, 0.1, 1.0
# Sigma of the logarithm: of one load against the next, and of one commit or round trip against the next.
OF_LOADS, OF_COMMITS = 0.01, 0.002
# What a link carries without a toxic, and how much of a toxic's rate comes out, in KB/s and as a share.
CARRIES, OF_RATE = 500_000.0, 0.9
# A load's trouble comes at this commit of it: late enough for figures from before, early enough for every load.
TROUBLE_AT = 3
# How much slower a cluster is whose flow control waits for a node with hardly any CPU, and how long it paused, in ms.
THROTTLED, PAUSED = 10.0, 700.0
HISTORY = "0b1f5a3e-fake"
# The statements of the workloads that change numbers.
FILLED = re.compile(r"REPLACE INTO (\S+) VALUES (.*)")
ASKED = re.compile(r"SELECT \w+ FROM (\S+) WHERE id = (\d+) FOR UPDATE")
CHANGED = re.compile(r"UPDATE (\S+) SET (\w+) = (?:\2 ([+-]) )?(\d+) WHERE id = (\d+)")
WIDE = re.compile(r"UPDATE \S+ SET text = ")
SUMMED = re.compile(r"SELECT SUM\(\w+\) FROM (\S+)")

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

    def pause(self, seconds: float, unless: threading.Event | None = None) -> None:
        """In place of `clock.pause`."""
        self.reach(self.timer() + seconds)

    def wait_until(
        self, condition: Callable[[], Any], what: str, seconds: float, every: float = 0.05, hint: str = ""
    ) -> Any:
        """In place of `clock.wait_until`."""
        until = self.timer() + seconds
        while self.timer() <= until:
            if found := condition():
                return found
            self.pause(every)
        raise LabError(f"waited {seconds:g} s and {what} did not come", what, hint)


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

    def lets_through(self) -> bool:
        return self._enabled

    def carries(self, toxics: set[str]) -> bool:
        return toxics <= set(self._bodies)

    def round_trip_ms(self) -> float | None:
        """One round trip now; None where nothing comes back."""
        if not self._enabled or any(body.type in ("timeout", "reset_peer") for body in self._bodies.values()):
            return None
        asked = sum(body.attributes.get("latency", 0) for body in self._bodies.values())
        return (BARE + PROXY + asked + (OVER if asked else 0)) * self._dice.lognormvariate(0, OF_COMMITS)

    def kilobytes_per_second(self) -> float:
        rates = [body.attributes["rate"] for body in self._bodies.values() if body.type == "bandwidth"]
        return min(rates) * OF_RATE if rates else CARRIES


class FakeEcho(EchoConnection):
    """A far end that answers after the wire's round trip; time passes meanwhile."""

    def __init__(self, wire: FakeWire, clock: "FakeClock"):
        self._wire, self._clock = wire, clock

    def connect(self, address: tuple[str, int], answer_seconds: float) -> "FakeEcho":
        return self

    def ping(self, reconnect: bool = False) -> None:
        trip = self._wire.round_trip_ms()
        if trip is None:
            raise TimeoutError("nothing comes back")
        self._clock.pause(trip / 1000)

    def long_answer(self, size: int) -> None:
        self._clock.pause(size / 1000 / self._wire.kilobytes_per_second())

    def close(self) -> None:
        pass


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

    def kilobytes_per_second(self, _kilobytes: int) -> float:
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
    left: bool = False
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

    def counters(self, *names: str) -> dict[str, int]:
        return {name: self.lab.grouping.counters[name] for name in names}

    def close(self) -> None:
        pass

    def execute(self, *statements: str) -> None:
        for statement in statements:
            if statement.startswith("INSERT"):
                self.lab.commit()
            elif filled := FILLED.match(statement):
                self.lab.rows.fill(*filled.groups())

    def value(self, statement: str) -> int:
        """A sum; one node's may differ, where a test wants it so."""
        return self.lab.rows.sum(SUMMED.match(statement)[1]) + self.differs

    def galera(self) -> Galera:
        group = self.lab.group
        # Who lost is counted where it lost; which node that was makes no difference to a sum over them.
        lost = group.conflicts if self.name == self.lab.topology.source.name else 0
        return Galera(
            ready=not self.left,
            state="Initialized" if self.left else "Synced",
            primary=not self.left,
            size=1 if self.left else len(self.lab.topology.nodes) - sum(s.left for s in self.lab.servers.values()),
            view=group.view,
            history=HISTORY,
            last_committed=group.last_committed,
            cert_failures=lost,
            bf_aborts=lost,
            paused_ms=group.paused_ms,
            replication_ms=None,
            addresses=(),
        )

    def wait_for_writesets(self) -> None:
        pass

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
        self.lab.race.applying[self.name] = self.name not in self.lab.race.broken

    def stop_replica(self) -> None:
        self.runs = False
        self.stop_applier()

    def stop_applier(self) -> None:
        self.lab.race.applying[self.name] = False

    def transactions(self) -> int:
        return self.lab.race.transactions(self.name)

    def redo(self) -> Redo:
        return self.lab.race.redo(self.name)

    def log_end(self) -> tuple[str, int]:
        return ("bin.1", 0)

    def progress(self) -> Progress:
        return Progress(received=("bin.1", 0), applied=("bin.1", 0), state="", tid=None)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """A query's plan; else no page is dirty, for nothing else is asked in this way."""
        return [self.lab.grouping.plan] if statement.startswith("EXPLAIN") else [{"Value": "0"}]

    def replicate_from(self, host: str, port: int) -> None:
        self.dials, self.runs = (host, port), True

    def position(self) -> dict[str, Any]:
        return {"position": "0-1-1"}

    def wait_for(self, position: dict[str, Any], seconds: int = 50) -> None:
        self.lab.race.level(self.name)

    @contextmanager
    def session(self, database: str = "lab") -> Iterator["FakeSession"]:
        session = FakeSession(self.lab, self.name)
        try:
            yield session
        finally:
            session.rollback()


@dataclass
class FakeSession:
    """A connection and its own cursor: it inserts a row, looks for the row inserted, or asks for the last number.

    Its transactions come one after another, though their times overlap: a row is taken until its last change was
    committed, and whoever comes from another node in that time has lost.
    """

    lab: "FakeLab"
    node: str
    changes: list[tuple[str, int, int]] | None = None
    answer: int = 0

    @contextmanager
    def cursor(self) -> Iterator["FakeSession"]:
        yield self

    def execute(self, statement: str) -> int:
        if statement.startswith("INSERT"):
            self._write()
        elif statement == "BEGIN":
            self.lab.rows.lock.acquire()
            self.changes = []
        elif statement == "COMMIT":
            self._commit()
        elif WIDE.match(statement):
            self.lab.race.change(1)
        elif changed := CHANGED.match(statement):
            self._change(*changed.groups())
        elif asked := ASKED.match(statement):
            self.answer = self.lab.rows.numbers[asked[1], int(asked[2])]
        elif summed := SUMMED.match(statement):
            self.answer = self.lab.rows.sum(summed[1])
        elif "WHERE" in statement:
            self.lab.clock.reach(self.lab.shown.get())
        return 1

    def fetchone(self) -> tuple[int]:
        return (self.answer,)

    def rollback(self) -> None:
        if self.changes is not None:
            self.changes = None
            self.lab.rows.lock.release()

    def _change(self, table: str, _column: str, sign: str | None, amount: str, number: str) -> None:
        key = (table, int(number))
        before = self.lab.rows.numbers[key]
        after = {None: int(amount), "+": before + int(amount), "-": before - int(amount)}[sign]
        self.changes.append((*key, after))

    def _commit(self) -> None:
        rows, now = self.lab.rows, self.lab.clock.timer()
        taken = [rows.taken[table, number] for table, number, _ in self.changes if (table, number) in rows.taken]
        until = max((until for until, _ in taken), default=now)
        if any(node != self.node and until > now for until, node in taken):
            self.lab.clock.reach(now + self.lab.commit(node=self.node, loses=True).answered / 1000)
            raise pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")
        commit, begins = self.lab.commit(node=self.node), max(now, until)
        if not rows.forgets:
            # All changes at once: who adds up meanwhile sees the table before the commit or after it.
            rows.numbers = rows.numbers | {(table, number): after for table, number, after in self.changes}
        for table, number, _ in self.changes:
            rows.taken[table, number] = (begins + commit.shown / 1000, self.node)
        rows.forgets = False
        self.lab.clock.reach(begins + commit.answered / 1000)
        self.rollback()

    def _write(self) -> None:
        began = shown = self.lab.clock.timer()
        try:
            commit = self.lab.commit()
            shown = began + commit.shown / 1000
            self.lab.clock.reach(began + commit.answered / 1000)
        finally:
            self.lab.shown.put(shown)  # whoever looks for the row must not look for ever when the writer failed


class FakeRows:
    """Numbers by table and id, and until when (s) and from which node a row's last change takes it."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self.taken: dict[tuple[str, int], tuple[float, str]] = {}
        self.lock = threading.Lock()
        self.forgets = False

    def fill(self, table: str, values: str) -> None:
        self.numbers |= {(table, int(number)): int(n) for number, n in re.findall(r"\((\d+), (\d+)\)", values)}

    def sum(self, table: str) -> int:
        return sum(n for (name, _), n in self.numbers.items() if name == table)


@dataclass
class FakeGroup:
    """What all nodes of a cluster count alike."""

    view: int = 3
    last_committed: int = 100
    conflicts: int = 0
    paused_ms: float = 0.0


@dataclass
class FakeContainer:
    """A node's container: its data's volume, its CPU limit in microseconds of each 100 ms, 0 for none."""

    volume: str = ""
    quota: int = 0
    throttled: int = 0
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def attrs(self) -> dict[str, list[dict[str, str]]]:
        return {"Mounts": [{"Name": self.volume}]}


class FakeLab:
    """A topology that came up. Commits go through `commit`, whichever client makes them."""

    password = "fake"

    def __init__(self, world: "FakeWorld", topology: Topology, engine: str):
        self.name, self.topology, self.engine = f"fake-{topology.name}", topology, engine
        self.clock, self.shown = world.clock, queue.SimpleQueue()
        self._world, self._dice = world, Random(f"{world.seed}:{engine}")
        # Dice of their own: links are measured at the same time, and which asks first must not matter.
        self._wires = {
            link.name: FakeWire(link.name, Random(f"{world.seed}:{engine}:{link.name}")) for link in topology.links
        }
        self.race = FakeRace(fake_arrays(topology.storage, self._dice), world.clock.timer, self._dice)
        self.grouping = FakeGrouping(catalogue.engines()[engine].features, self._dice)
        self.servers = {node.name: self._server(node.name) for node in topology.nodes}
        self.rows, self.group = FakeRows(), FakeGroup()
        self._containers = {node.name: FakeContainer(volume_name(self.name, node.name)) for node in topology.nodes}
        self.arrays = self.race.arrays
        peers = [node.name for node in topology.nodes if node.role == "peer"]
        self.resource = FakeResource(peers, self._dice) if peers else None
        self._pace, self._commits, self._load = 1.0, 0, 0

    def _server(self, name: str) -> FakeServer:
        has_choice = "wait_point" in catalogue.engines()[self.engine].features
        state = SemiSync(False, False, 1, 0, 0, 0, "AFTER_COMMIT" if has_choice else None, 10_000)
        into = next((link for link in self.topology.links if link.target == name), None)
        dials = ("toxiproxy", into.port) if into else None
        return FakeServer(name, self, state, dials, globals_=self.grouping.settings)

    def server(self, node: str) -> FakeServer:
        return self.servers[self.topology.node(node).name]

    @property
    def containers(self) -> dict[str, FakeContainer | FakeDisk | FakeArrayContainer]:
        of_arrays = [array.containers() for array in self.arrays.values()]
        of_resource = {disk.name: disk for disk in self.resource.disks.values()} if self.resource else {}
        return {service: one for group in (self._containers, of_resource, *of_arrays) for service, one in group.items()}

    def container(self, service: str) -> FakeContainer | FakeDisk | FakeArrayContainer:
        return self.containers[service]

    def cpu_quota_us(self, service: str) -> int:
        return self._containers[service].quota

    def limit_cpu(self, service: str, quota_us: int, _period_us: int) -> None:
        self._containers[service].quota = quota_us

    def throttled(self, service: str) -> int:
        return self._containers[service].throttled

    def wire(self, link: str) -> FakeWire:
        return self._wires[self.topology.link(link).name]

    def far_end(self, link: str) -> FakeEcho:
        return FakeEcho(self.wire(link), self.clock)

    def image_digests(self) -> dict[str, str]:
        return {node.name: "sha256:fake" for node in self.topology.nodes}

    def put(self, service: str, path: str, content: bytes) -> None:
        pass

    def place(self, *sites: tuple[str, ...]) -> dict[str, str]:
        return {}

    def load_begins(self, number: int) -> None:
        """From here on commits are counted towards the trouble of the load of that number."""
        self._load, self._commits = number, 0
        self.race.begin()
        self.rows.taken.clear()  # every load's clients begin at the beginning of time
        self._pace = self._dice.lognormvariate(0, OF_LOADS)

    def state_of(self, _service: str) -> tuple[str, int]:
        return "running", 0

    def why_ended(self) -> str:
        return ""

    def run(self, service: str, *command: str) -> str:
        """What the clients of workloads/sequential_inserts.lua, or an array's tools, would have printed."""
        if service.endswith("-array"):
            return self._of_array(service, command)
        if command[0] in SLAPS:
            return self._grouped(command)
        if command[0] == "printenv":
            return "fake\n"
        if command[0] == "guest":
            return self._in_guest(service, command[1:])
        if "oltp_read_write" in command:
            return self._transacted(command)
        if "row_updates" in command[1]:
            return self._changed(command)
        options = dict(part.removeprefix("--").split("=", 1) for part in command if part.startswith("--"))
        clients, rows, seconds = int(options["threads"]), int(options["events"]), float(options["time"])
        think = int(options.get("think", 0)) / 1000
        lines = []
        for _ in range(clients):
            mine = self._client(clients, rows // clients, seconds * 1000, think)
            ended = (sum(mine) + think * (len(mine) - 1)) / 1000
            lines.append(f"client 0.000000 {ended:.6f} {' '.join(str(round(ms * 1000)) for ms in mine)}\n")
        return "".join(lines)

    def _of_array(self, service: str, command: tuple[str, ...]) -> str:
        if "fio" in command and not self._commits:
            self._commits = TROUBLE_AT - 1
            self._count()
        return self.arrays[service.removesuffix("-array")].run(command)

    def _grouped(self, command: tuple[str, ...]) -> str:
        self._commits = TROUBLE_AT - 1
        self._count()
        return self.grouping.run(command, self.server(self.topology.source.name).globals_.get(CHOICE))

    def _in_guest(self, node: str, command: tuple[str, ...]) -> str:
        if command[0] == "resource":
            return self.resource.told(node, *command[1:])
        if not command[-1].startswith("dd "):
            return ""
        self._commits = TROUBLE_AT - 1
        self._count()
        link = min(self.wire(link.name).kilobytes_per_second() for link in self.topology.links)
        return self.resource.copies(command[-1], link)

    def _transacted(self, command: tuple[str, ...]) -> str:
        """What sysbench prints of its OLTP load; nothing of the filling before."""
        seconds = next((float(part.partition("=")[2]) for part in command if part.startswith("--time=")), 0)
        if not seconds:
            return ""
        self._commits = TROUBLE_AT - 1
        self._count()
        return self.resource.transacts(seconds)

    def _changed(self, command: tuple[str, ...]) -> str:
        """What sysbench prints of workloads/row_updates.lua."""
        rows = next(int(part.partition("=")[2]) for part in command if part.startswith("--events="))
        self.race.change(rows)
        self._commits = TROUBLE_AT - 1
        self._count()
        return f"    total number of events:              {rows}\n"

    def _count(self) -> None:
        self._commits += 1
        for container in self._containers.values():
            container.throttled += container.quota > 0
        if self._load and self._commits == TROUBLE_AT:
            self._world.meanwhile(self, self._load)

    def _client(self, clients: int, rows: int, milliseconds: float, think: float) -> list[float]:
        """One client's latencies in ms: of so many rows, or until its time is over, what comes first."""
        mine, spent = [], 0.0
        while (not rows or len(mine) < rows) and (not milliseconds or spent < milliseconds):
            mine.append(self.commit(clients).answered)
            spent += mine[-1] + think
        return mine

    def commit(self, clients: int = 1, node: str = "", loses: bool = False) -> Commit:
        """One commit on `node` (the source if none is named), one of `clients` at once; moves its counters.

        What `loses` in certification has waited as long as what wins.
        """
        self._count()
        own = COMMIT * self._pace * self._dice.lognormvariate(0, OF_COMMITS) * (1 + (clients - 1) / 10)
        if self.topology.replication == "galera":
            return self._certified(own, node or self.topology.source.name, loses)
        if self.resource and self.resource.connected and self.resource.protocol != "A":
            own += max(self.wire(link.name).round_trip_ms() or 0 for link in self.topology.links)
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

    def _certified(self, own: float, node: str, loses: bool) -> Commit:
        """A commit that all nodes have to have: it waits for the longest of its node's links."""
        trips = [self.wire(link.name).round_trip_ms() for link in self.topology.links_from(node)]
        if None in trips:
            raise LabError(f"{node} answered `COMMIT` with (1047, 'WSREP has not yet prepared node')", "a commit")
        if any(container.quota > 0 for container in self._containers.values()):
            own, self.group.paused_ms = own * THROTTLED, self.group.paused_ms + PAUSED
        self.group.last_committed += 1
        self.group.conflicts += loses
        return Commit(own + max(trips), own + max(trips))

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
    """A noise meter: busy or not, as its world is told. A load begins where it is started anew."""

    world: "FakeWorld"
    labs: tuple[FakeLab, ...]

    def anew(self) -> "FakeNoise":
        self.world.loads += 1
        for lab in self.labs:
            lab.load_begins(self.world.loads)
        return self

    def read(self) -> Noise:
        if self.world.noisy(self.world.loads):
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

    def make_ready(self, engines: list[str], topologies: Iterable[str], tell: Callable[[str], None]) -> None:
        for name in topologies:
            for engine in engines:
                catalogue.engine_for(catalogue.topology(name), engine)

    @contextmanager
    def lab(self, topology: str, engine: str) -> Iterator[FakeLab]:
        self.came_up.append(engine)
        try:
            yield FakeLab(self, catalogue.topology(topology), engine)
        finally:
            self.taken_down.append(engine)

    def round_trip(self, lab: FakeLab, link: str) -> FakeRoundTrip:
        return FakeRoundTrip(lab.wire(link))

    def noise(self, own: Iterable[FakeLab]) -> FakeNoise:
        return FakeNoise(self, tuple(own))


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


def keep_in_memory(lab: FakeLab, _load: int = 0) -> None:
    """Somebody raises tmp_table_size: the temporary tables need no disk any more."""
    lab.grouping.fits = True


def diverge(lab: FakeLab, _load: int = 0) -> None:
    """A replica's rows become others than its source's, without an error of replication."""
    for node in lab.topology.replicas:
        lab.server(node.name).differs = True


def leave(lab: FakeLab, _load: int = 0) -> None:
    """The cluster's last node is cut off, and the others go on without it."""
    lab.server(lab.topology.nodes[-1].name).left = True
    lab.group.view += 1


def leave_and_come_back(lab: FakeLab, _load: int = 0) -> None:
    """A node is gone for a moment: afterwards all looks as before, but for the number of views."""
    lab.group.view += 2


def lose_an_update(lab: FakeLab, _load: int = 0) -> None:
    """A change is acknowledged and kept on no copy."""
    lab.rows.forgets = True


def fail_load(_lab: FakeLab, _load: int = 0) -> None:
    """The load generator ends with an error."""
    raise LabError("`sysbench` in load ended with 1:\n  FATAL: mysql_drv_query() returned error 2013", "exit status 0")


def interrupt(_lab: FakeLab, _load: int = 0) -> None:
    """Somebody sends SIGTERM."""
    raise KeyboardInterrupt("SIGTERM")


def crash(_lab: FakeLab, _load: int = 0) -> None:
    """The harness itself fails."""
    raise ZeroDivisionError("a defect of the harness")
