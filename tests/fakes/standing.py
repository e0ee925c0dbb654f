"""A lab of a source and replicas for failovers, whose servers are only state."""

from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, lab_files
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Backlog, Replica, ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes.link import FakeProxies
from tests.fakes.parts import LabOfNames, let_the_server_answer


@dataclass
class Node:
    """A server as a failover sees it: its GTIDs, its source, and the statements that it got."""

    name: str
    has: str = "0-1-10"
    port: int | None = None
    silent: bool = False
    read_only: bool = True
    # What it has received, whether it applies that, and what ends the wait for that.
    got: str = ""
    applying: bool = True
    stuck: BaseException | None = None
    # The error with which its replication has ended.
    ended: str = ""
    # Commits that wait keep a server from becoming read-only.
    waits: bool = False
    # As a source whose commits wait for an acknowledgement.
    acknowledged: bool = False
    container: str = "running"
    told: list = field(default_factory=list)
    dialect = dialects()["mariadb"]

    def _answer(self):
        if self.silent:
            raise LabError(f"{self.name} does not answer", "a connection")

    def version(self):
        self._answer()
        return "fake"

    def within(self, _seconds):
        return self

    def close(self):
        """Do nothing: there is no connection."""

    def execute(self, statement):
        self._answer()

    def gtids(self):
        self._answer()
        return self.has

    def position(self):
        return {"position": self.has}

    def replication(self):
        self._answer()
        return self.port and ReplicaStatus(
            not self.ended, self.applying, "toxiproxy", self.port, "", 0, ended=self.ended
        )

    def received(self):
        self._answer()
        return self.got

    def backlog(self, kept=""):
        missing = gtid.beyond(f"{self.got},{kept}", self.has)
        return Backlog(missing, "the applier is stopped; ", ("START SLAVE SQL_THREAD",)) if missing else None

    def progress(self):
        """Return None: nothing moves."""

    def set_global(self, **settings):
        self._answer()
        if self.waits:
            raise LabError("lock wait timeout", "a successful statement")
        self.told.append(settings)
        self.read_only = bool(settings.get("read_only", self.read_only))

    def settings(self, name):
        self._answer()
        return {name: "ON" if self.read_only else "OFF"}

    def set_semisync(self, enabled):
        self.told.append(f"semi-sync {enabled}")
        self.acknowledged = enabled

    def semisync_status(self):
        return SimpleNamespace(active=self.acknowledged)

    def end_replication(self, lose=False):
        self.told.append("discard" if lose and self.backlog() else "stop following")
        if self.stuck:
            raise self.stuck
        self.got = ""

    def forget(self):
        self.port = None

    def follow(self, host, port):
        self.told.append(("follow", port))
        self.port = port

    def resume(self):
        self.told.append("resume")

    def start(self):
        self.told.append("start")

    def reset_gtids_to(self, position):
        self.told.append(("begin at", position))

    def enable_semisync_replica(self):
        self.told.append("acknowledge")

    def wait_for(self, position, seconds=50):
        pass


@pytest.fixture(autouse=True)
def nodes_answer(monkeypatch):
    """Have replication, semi-sync and binary logs ask such nodes."""
    same = ("received", "backlog", "progress", "end_replication", "forget", "follow", "resume", "start", "wait_for")
    others = {"status": "replication", "settled": "backlog"}
    let_the_server_answer(monkeypatch, Replica, **others, **dict(zip(same, same, strict=True)))
    let_the_server_answer(
        monkeypatch,
        SemiSync,
        set="set_semisync",
        status="semisync_status",
        enable_semisync_replica="enable_semisync_replica",
    )
    let_the_server_answer(monkeypatch, BinaryLog, gtids="gtids", position="position", reset_gtids_to="reset_gtids_to")


class Standing(LabOfNames):
    """A lab of such nodes; all of them replicate."""

    name, engine = "standing", "mariadb"

    def __init__(self, topology="fanout"):
        self.topology = catalogue.topology(topology)
        into = {link.target: link.port for link in self.topology.links}
        self.nodes = {node.name: Node(node.name, port=into.get(node.name)) for node in self.topology.nodes}
        for name in set(self.nodes) - set(into):
            self.nodes[name].read_only = False
        self.toxiproxy, self.files, self.manager = FakeProxies(self.topology), {}, None

    def server(self, node):
        return self.nodes[node]

    def answers(self, node):
        with suppress(LabError):
            return bool(self.nodes[node].version())
        return False

    def answers_soon(self, node):
        return self.state_of(node)[0] == "running" and self.answers(node)

    def state_of(self, node):
        return self.nodes[node].container, 0

    def kill(self, node, signal="SIGKILL"):
        self.nodes[node].told.append("killed")
        self.nodes[node].container = "exited"

    def start_again(self, node):
        self.nodes[node].told.append("started")
        self.nodes[node].container, self.nodes[node].waits = "running", False
        self.nodes[node].read_only = any(b"read_only = 1" in text for text in self.files.values())

    def text_of(self, node, path):
        return self.files.get((node, path), b"").decode()

    def link(self, name):
        return SimpleNamespace(add=lambda body: self.toxiproxy.add(name, body))

    def state(self):
        """Return None: a run started the lab, and it is not meant to stay."""

    def put(self, node, path, content):
        self.files[node, path] = content


@pytest.fixture
def lab(monkeypatch, tmp_path):
    """Return a source, a far and a near replica; every wait ends at once."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(clock, "wait_while_changing", lambda look, *_: look())

    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not (found := condition()):
            raise LabError(f"{what} did not come", "it")
        return found

    monkeypatch.setattr(clock, "wait_until", wait_until)
    return Standing()
