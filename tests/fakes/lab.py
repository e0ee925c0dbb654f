"""A lab of the fake world: its servers, its links, and what loads do to them."""

import queue
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pymysql
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue
from replication_lab.world.client_place import HERE
from replication_lab.world.disks.overlay import volume_name
from replication_lab.world.docker.sql_client import Failure
from replication_lab.world.mysql.dialects import Dialect
from replication_lab.world.mysql.semisync import SemiSyncStatus

from tests.fakes.disks import FakeArrayContainer, FakeDisk, FakeRace, fake_arrays
from tests.fakes.drbd import FakeResource
from tests.fakes.link import BARE, FakeEcho, FakeLink, FakeProxies, OneToxiproxy, varied
from tests.fakes.programs import Programs
from tests.fakes.server import FakeServer
from tests.fakes.session import FakeRows
from tests.fakes.slap import FakeGrouping

if TYPE_CHECKING:
    from tests.fakes.world import FakeWorld

# The user's options, as a node reads them when it starts.
FILE = "/etc/mysql/conf.d/zz-user.cnf"
# Sigma of the logarithm of one load against the next.
OF_LOADS = 0.01
# A load's trouble comes at this commit of it: late enough for figures from before, early enough for every load.
TROUBLE_AT = 3
# How much slower a cluster is whose flow control waits for a node with hardly any CPU, and how long it paused, in ms.
THROTTLED, PAUSED = 10.0, 700.0


class Commit(NamedTuple):
    """When others can read a row and when its writer is answered, in ms after the writer sent it."""

    shown: float
    answered: float


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
    id: str = ""
    quota: int = 0
    throttled: int = 0
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def attrs(self) -> dict[str, list[dict[str, str]]]:
        return {"Mounts": [{"Name": self.volume}]}


@dataclass(frozen=True)
class FakeNode:
    """A service of a lab."""

    lab: "FakeLab"
    name: str

    @property
    def container(self) -> FakeContainer | FakeDisk | FakeArrayContainer:
        return self.lab.containers[self.name]

    def server(self) -> FakeServer:
        return self.lab.servers[self.lab.topology.node(self.name).name]

    def addresses(self) -> set[str]:
        """None: a source tells of no reader that comes from here."""
        return set()

    def answers(self) -> bool:
        try:
            return bool(self.server().version())
        except LabError:
            return False

    @property
    def dialect(self) -> Dialect:
        return self.server().dialect

    def cpu_quota_us(self) -> int:
        return self.container.quota

    def limit_cpu(self, quota_us: int, _period_us: int) -> None:
        self.container.quota = quota_us

    def throttled(self) -> int:
        return self.container.throttled

    def state(self) -> tuple[str, int]:
        return ("exited", 1) if self.lab.died.get(self.name) else ("running", 0)

    def stop(self) -> None:
        self.lab.restarts.append(self.name)

    def start_again(self) -> None:
        self.lab.died[self.name] = self.server().start_with("" if self.lab.deaf else self.text_of(FILE))

    def is_healthy(self) -> bool:
        return not self.lab.died.get(self.name)

    def logs_since_start(self) -> str:
        return self.lab.died[self.name]

    def text_of(self, path: str) -> str:
        return self.lab.files_of[self.name].get(path, b"").decode()

    def logs(self, lines: int | str = 12) -> str:
        return ""

    def put(self, path: str, content: bytes, root: str = "") -> None:
        self.lab.files[path] = self.lab.files_of[self.name][path] = content

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        if self.name in self.lab.beside:
            return self.lab.own_command(environment or {})
        return self.lab.programs.run(self.name, command)

    def run_sql(
        self, _command: Sequence[str], _password: str, sql: str, _place_of: Callable[[int | None], str]
    ) -> Failure | None:
        """Run each line's statements in a session; the model knows no statement of several lines."""
        with self.server().session() as session:
            for number, line in enumerate(sql.splitlines(), 1):
                for statement in filter(None, map(str.strip, line.split(";"))):
                    try:
                        session.execute(statement)
                    except pymysql.err.MySQLError as error:
                        return Failure(number, *error.args)
        return None


class FakeContainers:
    """No containers, as this machine has no process of the lab's."""

    @property
    def subnets(self) -> tuple[str, ...]:
        return ()

    @property
    def every(self) -> dict[str, Any]:
        return {}

    def cpu_seconds(self) -> dict[str, float]:
        return {}

    def cpu_seconds_of(self, containers: Mapping[str, Any], _files: object = None) -> dict[str, float]:
        return dict.fromkeys(containers, 0.0)


class FakeLab(OneToxiproxy):
    """A topology that came up. Commits go through `commit`, whichever client makes them."""

    passwords: ClassVar = {"lab": "fake", "root": "of root", "replicator": "of replicator"}
    owners: frozenset[str] = frozenset()
    # A fake lab has no proxy in front of its servers, and no failover manager.
    endpoint = manager = None

    @property
    def written_host(self) -> str:
        return self.topology.source.name

    def __init__(self, world: "FakeWorld", topology: Topology, engine: str):
        # A revision is after an "@", which no lab has in its name.
        self.name, self.topology, self.engine = f"fake-{topology.name.replace('@', '-')}", topology, engine
        self.clock, self.shown = world.clock, queue.SimpleQueue()
        self._world, self._dice = world, Random(f"{world.seed}:{engine}")
        # Dice of their own: links are measured at the same time, and which asks first must not matter.
        self._links = {
            link.name: FakeLink(link.name, Random(f"{world.seed}:{engine}:{link.name}")) for link in topology.links
        }
        for link in self._links.values():
            link.answers = FakeEcho(link, world.clock)
        self.toxiproxy = FakeProxies(topology)
        self.race = FakeRace(fake_arrays(topology.storage, self._dice), world.clock.timer, self._dice)
        self.grouping = FakeGrouping(catalogue.engines()[engine].features, self._dice)
        self.servers = {node.name: self._server(node.name) for node in topology.nodes}
        self._source = self.servers[topology.source.name]
        self._from_source = [
            (self._links[link.name], self.servers[link.target]) for link in topology.links_from(topology.source.name)
        ]
        self.rows, self.group = FakeRows(), FakeGroup()
        self._containers = {each: FakeContainer(volume_name(self.name, each), each) for each in self.servers}
        self.arrays = self.race.arrays
        peers = [node.name for node in topology.nodes if node.role == "peer"]
        self.resource = FakeResource(peers, self._dice) if peers else None
        self._pace, self._commits, self._load = 1.0, 0, 0
        self.programs = Programs(self)
        # Files put into its containers, and statements of sessions.
        self.files: dict[str, bytes] = {}
        # The services that were started beside those of the topology, and their images.
        self.beside: dict[str, str] = {}
        self.files_of: dict[str, dict[str, bytes]] = defaultdict(dict)
        self.said: list[str] = []
        # The rows of a drill's ledger, which are everywhere at once.
        self.ledger: list[int] = []
        # Nodes that were stopped; the log of each that did not start; whether servers ignore their files.
        self.restarts: list[str] = []
        self.died: dict[str, str] = {}
        self.deaf = False

    # Clients run in this process.
    clients_are_beside, clients_place = False, HERE

    def for_clients(self, name: str) -> FakeServer:
        return self.servers[name]

    def application(self, _node: str) -> tuple[str, str]:
        return "lab", self.passwords["lab"]

    def administrator(self, _node: str) -> tuple[str, str]:
        return "root", self.passwords["root"]

    @property
    def different_nodes(self) -> list[str]:
        return [self.topology.source.name]

    @property
    def features(self) -> frozenset[str]:
        return catalogue.engines()[self.engine].features

    def _server(self, name: str) -> FakeServer:
        has_choice = "wait_point" in self.features
        state = SemiSyncStatus(False, False, 1, 0, 0, 0, "AFTER_COMMIT" if has_choice else None, 10_000)
        into = next((link for link in self.topology.links if link.target == name), None)
        dials = ("toxiproxy", into.port) if into else None
        return FakeServer(name, self, state, dials, globals_=self.grouping.settings)

    @property
    def containers(self) -> dict[str, FakeContainer | FakeDisk | FakeArrayContainer]:
        of_arrays: list[dict[str, Any]] = [array.containers() for array in self.arrays.values()]
        of_resource: dict[str, Any] = (
            {disk.name: disk for disk in self.resource.disks.values()} if self.resource else {}
        )
        return {service: one for group in (self._containers, of_resource, *of_arrays) for service, one in group.items()}

    def database(self, _node: str) -> str:
        return "lab"

    def node(self, name: str) -> FakeNode:
        return FakeNode(self, name)

    def node_at(self, host: str) -> str:
        return host

    def states(self) -> dict[str, str]:
        return {node.name: self.node(node.name).state()[0] for node in self.topology.nodes}

    def service(self, name: str) -> FakeNode:
        return FakeNode(self, name)

    def link(self, name: str) -> FakeLink:
        return self._links[self.topology.link(name).name]

    @property
    def pinned(self) -> dict[str, str]:
        return {}

    @property
    def not_done(self) -> list[str]:
        return []

    def image_origins(self) -> dict[str, str]:
        return {}

    def image_digests(self) -> dict[str, str]:
        return {node.name: "sha256:fake" for node in self.topology.nodes}

    def refresh(self) -> None:
        pass

    @property
    def all_containers(self) -> "FakeContainers":
        return FakeContainers()

    def another(self) -> "FakeLab":
        return self

    def pin_cpus(self, *sites: tuple[str, ...]) -> dict[str, str]:
        return {}

    def run_beside(self, _like: str, name: str, image: str) -> None:
        self.beside[name] = image

    def own_command(self, environment: Mapping[str, str]) -> str:
        """Return what a user's load command prints: each client inserts, and reads after each insert."""
        seconds, rate = float(environment["LAB_SECONDS"]), float(environment["LAB_RATE"] or 0)
        clients, lines = int(environment["LAB_CLIENTS"]), []
        for client in range(clients):
            number, free = client, 0.0
            while (number / rate if rate else free) < seconds:
                start = number / rate if rate else free
                answered = max(start, free) + self.commit(clients).answered / 1000
                lines += [(start, answered, "write"), *([] if rate else [(answered, answered + 0.0005, "read")])]
                free, number = answered, number + clients
        return "".join(f"{start * 1e6:.0f} {(end - start) * 1e6:.0f} {kind} ok\n" for start, end, kind in lines)

    def load_begins(self, number: int) -> None:
        """Count commits from here on towards the trouble of the load of that number."""
        self._load, self._commits = number, 0
        self.race.begin()
        self.rows.taken.clear()  # every load's clients begin at the beginning of time
        self._pace = self._dice.lognormvariate(0, OF_LOADS)

    def exit_reason(self) -> str:
        return ""

    @property
    def has_committed(self) -> bool:
        return self._commits > 0

    def go_through_trouble(self) -> None:
        """Cause the trouble of a load that the model does not run commit by commit."""
        self._commits = TROUBLE_AT - 1
        self._count()

    def _count(self) -> None:
        self._commits += 1
        for container in self._containers.values():
            container.throttled += container.quota > 0
        if self._load and self._commits == TROUBLE_AT:
            self._world.meanwhile(self, self._load)

    def commit(self, clients: int = 1, node: str = "", loses: bool = False) -> Commit:
        """Commit once on `node` (the source if none is named), as one of `clients` at once; move its counters."""
        self._count()
        own = self._world.commit_ms * self._pace * varied(self._dice) * (1 + (clients - 1) / 10)
        if self.topology.replication == "galera":
            return self._certified(own, node or self.topology.source.name, loses)
        if self.resource and self.resource.connected and self.resource.protocol != "A":
            own += max(self.link(link.name).round_trip_ms() or 0 for link in self.topology.links)
        source = self._source
        state = source.semisync
        if not state.enabled:
            return Commit(own, own)
        waited = self._acknowledged_after() if state.active else None
        if waited is None:
            source.unacknowledged += 1
            return Commit(own, own)
        source.acknowledged += 1
        return Commit(own + waited if state.wait_point == "AFTER_SYNC" else own, own + waited)

    def _certified(self, own: float, node: str, loses: bool) -> Commit:
        """Commit on all nodes: wait for the longest of the node's links."""
        trips = [self.link(link.name).round_trip_ms() for link in self.topology.links_from(node)]
        if None in trips:
            raise LabError(f"{node} answered `COMMIT` with (1047, 'WSREP has not yet prepared node')", "a commit")
        if any(container.quota > 0 for container in self._containers.values()):
            own, self.group.paused_ms = own * THROTTLED, self.group.paused_ms + PAUSED
        self.group.last_committed += 1
        self.group.conflicts += loses
        return Commit(own + max(trips), own + max(trips))

    def _acknowledged_after(self) -> float | None:
        """Return the round trip in ms to the replica that answers first; None if none is connected."""
        trips = []
        for link, replica in self._from_source:
            if replica.runs and replica.dials:
                direct = replica.dials[0] == self.topology.source.name
                trips.append(BARE if direct else link.round_trip_ms())
        return min((trip for trip in trips if trip is not None), default=None)
