"""Promotion and rejoining, and the errors where they are refused; against servers that are only state."""

import io
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from replication_lab.cli import output
from replication_lab.model import gtid
from replication_lab.model.errors import LabError
from replication_lab.replication import failover, fence
from replication_lab.world import catalogue, clock, lab_files
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Backlog, Progress, Replica, ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync
from rich.console import Console

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
    # Commits that wait keep a server from becoming read-only.
    waits: bool = False
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
        return self.port and ReplicaStatus(True, self.applying, "toxiproxy", self.port, "", 0)

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

    def stop_following(self, lose=False):
        self.told.append("discard" if lose and self.backlog() else "stop following")
        if self.stuck:
            raise self.stuck
        self.port, self.got = None, ""

    def follow(self, host, port):
        self.told.append(("follow", port))
        self.port = port

    def resume(self):
        self.told.append("resume")

    def reset_gtids_to(self, position):
        self.told.append(("begin at", position))

    def enable_semisync_replica(self):
        self.told.append("acknowledge")

    def wait_for(self, position):
        pass


@pytest.fixture(autouse=True)
def nodes_answer(monkeypatch):
    same = ("received", "backlog", "progress", "stop_following", "follow", "resume", "wait_for")
    others = {"status": "replication", "settled": "backlog"}
    let_the_server_answer(monkeypatch, Replica, **others, **dict(zip(same, same, strict=True)))
    let_the_server_answer(monkeypatch, SemiSync, set="set_semisync", enable_semisync_replica="enable_semisync_replica")
    let_the_server_answer(monkeypatch, BinaryLog, gtids="gtids", position="position", reset_gtids_to="reset_gtids_to")


class Proxies:
    """Toxiproxy with a topology's links, and those that are made."""

    def __init__(self, topology):
        self.known = {link.name: {"listen": f"[::]:{link.port}", "upstream": link.upstream} for link in topology.links}
        self.toxics = []

    def proxies(self):
        return self.known

    def create(self, name, listen, upstream):
        self.known[name] = {"listen": listen, "upstream": upstream}

    def add(self, proxy, body):
        self.toxics.append((proxy, body.name))


class Standing(LabOfNames):
    """A lab of such nodes; all of them replicate."""

    name, engine = "standing", "mariadb"

    def __init__(self, topology="fanout"):
        self.topology = catalogue.topology(topology)
        into = {link.target: link.port for link in self.topology.links}
        self.nodes = {node.name: Node(node.name, port=into.get(node.name)) for node in self.topology.nodes}
        for name in set(self.nodes) - set(into):
            self.nodes[name].read_only = False
        self.toxiproxy, self.files = Proxies(self.topology), {}

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

    def kill(self, node):
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
            raise LabError(f"{what} did not come")
        return found

    monkeypatch.setattr(clock, "wait_until", wait_until)
    return Standing()


def test_each_replica_is_found_with_its_source(lab):
    """By the port that it dials, which is a link's."""
    assert failover.sources(lab) == {"far": "source", "near": "source"}


def test_roles_and_links_are_those_of_who_follows_whom(lab):
    """A promoted replica is the source, the old one alone; one that does not answer is what the topology made it."""
    promoted = {"source": "", "near": "", "far": "near"}

    assert failover.roles(lab, promoted) == {"source": "alone", "near": "source", "far": "replica"}
    assert failover.roles(lab, {"near": "", "far": "near"})["source"] == "source"
    assert failover.links(lab, promoted) == [("near-far", "near", "far")]
    assert {name for name, _, _ in failover.links(lab, {"source": ""})} == {"source-far", "source-near"}


def test_a_promoted_replica_takes_writes_and_the_others_follow_it(lab):
    """Over a new link, with the slower end's toxics; the old source is fenced before and after."""
    done = failover.failover(lab, "near")

    assert (done.old, done.source, done.repointed, done.lacks) == ("source", "near", ["far"], "")
    assert lab.nodes["near"].told == ["stop following", {"read_only": 0}]
    port = int(lab.toxiproxy.known["near-far"]["listen"].rpartition(":")[2])
    assert lab.nodes["far"].told == ["stop following", ("follow", port)]
    assert ("near-far", "wan-85ms-down") in lab.toxiproxy.toxics
    assert lab.nodes["source"].told == [{"read_only": 1}]
    assert b"read_only = 1" in lab.files["source", fence.FENCES[0]]
    assert lab.files["near", failover.ROLE] == b"--read-only=0\n"


@pytest.mark.parametrize(("waits", "on"), [(True, 1), (False, 0)])
def test_a_role_in_semi_sync_says_which_side_a_server_starts_as(waits, on):
    """A source without replicas would let each commit wait for the timeout."""
    lab = Standing("semisync")
    replica = lab.node("replica").server()
    failover._set_role(lab, replica, source=True, waits=waits)
    as_source = lab.files["replica", failover.ROLE].decode().splitlines()
    failover._set_role(lab, replica, source=False)
    as_replica = lab.files["replica", failover.ROLE].decode().splitlines()
    waiting, acknowledging = replica.dialect.semisync_source, replica.dialect.semisync_replica

    assert as_source == ["--read-only=0", f"--loose-{waiting}_enabled={on}", f"--loose-{acknowledging}_enabled=0"]
    assert as_replica == ["--read-only=1", f"--loose-{waiting}_enabled=0", f"--loose-{acknowledging}_enabled=1"]


def untouched(lab):
    return not any(node.told for node in lab.nodes.values()) and set(lab.files.values()) <= {b""}


def test_a_replica_that_is_behind_is_refused_before_anything_is_changed(lab, refused):
    """With what it lacks."""
    lab.nodes["source"].has = "0-1-12"
    error = refused(failover.failover, lab, "near")

    assert "near is behind: source has 2 transactions: 0-1-11 to 0-1-12" in error.found
    assert "--allow-data-loss" in error.next_step
    assert untouched(lab)


def test_what_is_committed_until_the_fence_stands_is_missed_too(lab, refused, monkeypatch):
    """The fence is taken down again."""
    close = fence.Fence.close

    def commit_first(self, before_restart):
        lab.nodes["source"].has = "0-1-11"
        close(self, before_restart)

    monkeypatch.setattr(fence.Fence, "close", commit_first)

    assert "source has 1 transaction: 0-1-11" in refused(failover.failover, lab, "near").found
    assert lab.nodes["source"].told == [{"read_only": 1}, {"read_only": 0}]
    assert set(lab.files.values()) == {b""}
    assert lab.nodes["near"].told == []


def test_what_a_replica_has_received_and_not_applied_keeps_it_from_being_promoted(lab, refused):
    """With the count, the cause and the statement that applies it; nothing is changed."""
    lab.nodes["near"].got, lab.nodes["near"].applying = "0-1-12", False
    lab.nodes["source"].silent = True
    error = refused(failover.failover, lab, "near")

    assert "the applier is stopped; 2 transactions received and not applied: 0-1-11 to 0-1-12" in error.found
    assert './lab sql near -e "START SLAVE SQL_THREAD"; or ./lab failover near --allow-data-loss' in error.next_step
    assert untouched(lab)


def test_what_was_received_is_kept_in_mind_when_its_relay_log_is_gone(lab, refused):
    """A second failover is refused like the first, until it is applied; one with loss counts it and ends that."""
    lab.nodes["source"].silent = True
    lab.nodes["near"].got = "0-1-12"
    refused(failover.failover, lab, "near")
    lab.nodes["near"].got = ""

    assert "2 transactions received and not applied" in refused(failover.failover, lab, "near").found
    done = failover.failover(lab, "near", allow_data_loss=True)
    assert (done.lost, "0-1-11 to 0-1-12" in done.lacks) == (2, True)
    assert not list(lab_files.FOLDER.glob(f"*{lab_files.RECEIVED}"))


def test_a_loss_is_counted_once_though_several_nodes_have_it(lab):
    """The source and a replica have the same two transactions, one of which the new source has received."""
    lab.nodes["near"].got = "0-1-11"
    lab.nodes["source"].has = lab.nodes["far"].has = "0-1-12"

    assert failover.failover(lab, "near", allow_data_loss=True).lost == 2


@pytest.mark.parametrize(("waits", "container"), [(True, "running"), (False, "paused")])
def test_a_source_whose_commits_wait_or_that_is_frozen_is_killed_and_started_as_read_only(lab, waits, container):
    """A dead process confirms no commit; the fence is in its files before it starts again."""
    source = lab.nodes["source"]
    source.waits, source.container = waits, container
    done = failover.failover(lab, "near")

    assert source.told == ["killed", "started"] and source.read_only
    assert "source" in done.fenced and "killed and starts again as read-only" in done.fenced
    said = io.StringIO()
    output.promoted(Console(file=said, width=140), done)
    assert done.fenced in said.getvalue()


def test_a_commit_that_waits_and_that_no_replica_has_received_is_not_given_up(lab, refused, monkeypatch):
    """MySQL does not count it as executed; the source's log is longer than what the replica has received."""
    lab.nodes["source"].waits = True
    monkeypatch.setattr(Node, "progress", lambda self: Progress(("bin.1", 100), ("bin.1", 100), "", None))
    monkeypatch.setattr(BinaryLog, "end", lambda self: ("bin.1", 200))

    assert "commits wait on source, and near has not received them" in refused(failover.failover, lab, "near").found
    assert "killed" not in lab.nodes["source"].told
    assert "killed" in failover.failover(lab, "near", allow_data_loss=True).fenced


@pytest.mark.parametrize("container", ["running", "paused"])
def test_a_relay_that_was_read_only_before_stays_so_when_a_failover_is_refused(refused, lab, container):
    """Its leaf would have been promoted; the fence takes back only what it has set."""
    chain = Standing("chain")
    chain.nodes["relay"].container = container
    chain.nodes["leaf"].stuck = LabError("its applier has stopped", "one that runs")
    refused(failover.failover, chain, "leaf")

    assert chain.nodes["relay"].read_only


@pytest.mark.parametrize("ended_by", [LabError("its applier has stopped", "one that runs"), KeyboardInterrupt()])
def test_a_replica_that_cannot_apply_what_it_has_is_not_promoted_and_the_source_goes_on(lab, ended_by):
    """Its applier has stopped, or the wait was interrupted: a fence without a new source would leave no source."""
    lab.nodes["near"].stuck = ended_by
    with pytest.raises(type(ended_by)):
        failover.failover(lab, "near")

    assert lab.nodes["source"].told == [{"read_only": 1}, {"read_only": 0}]
    assert set(lab.files.values()) == {b""}


def test_a_replica_behind_another_one_is_refused_though_the_source_is_dead(lab, refused):
    """The most advanced one has to go first."""
    lab.nodes["source"].silent = True
    lab.nodes["far"].has = "0-1-11"

    assert "far has 1 transaction: 0-1-11" in refused(failover.failover, lab, "near").found
    assert failover.failover(lab, "far").repointed == ["near"]


def test_a_replica_that_is_behind_is_promoted_where_that_is_asked_for(lab):
    """What is lost is said."""
    lab.nodes["source"].has = "0-1-12"

    assert failover.failover(lab, "near", allow_data_loss=True).lacks == "source has 2 transactions: 0-1-11 to 0-1-12"


def test_a_replica_that_is_ahead_of_the_new_source_follows_nobody(lab, refused):
    """The new source could not send it what comes after; what it has alone is named, and discarded on request only."""
    lab.nodes["source"].silent = True
    lab.nodes["far"].has = "0-1-12"
    done = failover.failover(lab, "near", allow_data_loss=True)

    assert (done.repointed, done.ahead) == ([], {"far": "2 transactions: 0-1-11 to 0-1-12"})
    assert lab.nodes["far"].told == ["stop following"]
    said = io.StringIO()
    output.promoted(Console(file=said, width=140), done)
    assert "far was not repointed: it has 2 transactions" in said.getvalue()
    assert "./lab rejoin far --discard-errant" in said.getvalue()
    assert "far has 2 transactions" in refused(failover.rejoin, lab, "far").found


def test_what_a_replica_has_received_and_not_applied_counts_too(lab, refused):
    """The new source lacks it; that replica stays as it is, until its own transactions are discarded on request."""
    lab.nodes["far"].got = "0-1-11"
    error = refused(failover.failover, lab, "near")

    assert "near is behind: far has 1 transaction: 0-1-11" in error.found
    done = failover.failover(lab, "near", allow_data_loss=True)
    assert done.left == {"far": "the applier is stopped; 1 transaction received and not applied: 0-1-11"}
    assert lab.nodes["far"].told == [], "its relay log would be gone"
    assert "far has 1 transaction: 0-1-11" in refused(failover.rejoin, lab, "far").found
    assert lab.nodes["far"].told == []


def test_a_replica_that_cannot_be_repointed_is_named(lab):
    """The new source serves; the broken one can be taken back once it is repaired."""
    lab.nodes["far"].stuck = LabError("far's applier has stopped", "one that runs")
    done = failover.failover(lab, "near")

    assert (done.repointed, done.left) == ([], {"far": "far's applier has stopped"})
    assert lab.nodes["near"].told == ["stop following", {"read_only": 0}]
    said = io.StringIO()
    output.promoted(Console(file=said, width=140), done)
    assert "far was not repointed: far's applier has stopped" in said.getvalue()
    lab.nodes["far"].stuck = None
    assert failover.rejoin(lab, "far").source == "near"


def test_who_follows_nobody_cannot_be_promoted(lab, refused):
    """Nor a name that is none, nor a node of a topology without source and replicas, nor one without GTIDs."""
    assert "source is not a replica" in refused(failover.failover, lab, "source").found
    assert "unknown node" in refused(failover.failover, lab, "nera").found
    for other in ("galera", "group", "drbd", "drbd-ha"):
        error = refused(failover.failover, Standing(other), "node1")
        assert "no source and replicas" in error.found and error.next_step
    lab.engine = "mysql-5.5"
    assert "no GTIDs" in refused(failover.failover, lab, "near").found


def promoted(lab, errant=""):
    """Return the lab after its source has died, near was promoted and the source started again."""
    lab.nodes["source"].silent = True
    failover.failover(lab, "near")
    lab.nodes["source"].silent = False
    lab.nodes["source"].has = errant or "0-1-10"
    lab.nodes["near"].has = "0-1-10,0-3-15"
    lab.nodes["source"].told.clear()


def test_an_old_source_without_rows_of_its_own_follows_the_new_one(lab):
    """From where its own log ends; it stays read-only."""
    promoted(lab)
    done = failover.rejoin(lab, "source")

    assert (done.node, done.source, done.discarded) == ("source", "near", "")
    port = int(lab.toxiproxy.known["near-source"]["listen"].rpartition(":")[2])
    assert lab.nodes["source"].told == [{"read_only": 1}, "resume", ("follow", port)]


def test_errant_transactions_are_named_and_nothing_is_done(lab, refused):
    """They are discarded on request only."""
    promoted(lab, errant="0-1-13")
    error = refused(failover.rejoin, lab, "source")

    assert "source has 3 transactions: 0-1-11 to 0-1-13, which near lacks" in error.found
    assert "--discard-errant" in error.next_step
    assert lab.nodes["source"].told == []


def test_errant_transactions_are_discarded_where_that_is_asked_for(lab, monkeypatch):
    """The node's data are the source's then."""
    promoted(lab, errant="0-1-13")
    monkeypatch.setattr(failover, "clone", lambda source, target: f"as {source.name}")
    done = failover.rejoin(lab, "source", discard_errant=True)

    assert done.discarded == "3 transactions: 0-1-11 to 0-1-13"
    assert ("begin at", "as near") in lab.nodes["source"].told


def test_who_follows_already_cannot_come_back(lab, refused):
    """Nor can a node rejoin if its source is ambiguous: two servers accept writes, or none."""
    assert "far already replicates from source" in refused(failover.rejoin, lab, "far").found
    lab.nodes["far"].port = lab.nodes["near"].port = None
    assert "no node could be the source of source" in refused(failover.rejoin, lab, "source").found
    lab.nodes["far"].read_only = lab.nodes["near"].read_only = False
    assert "far, near could be the source of source" in refused(failover.rejoin, lab, "source").found


def test_a_semisync_pair_stays_semisynchronous(monkeypatch):
    """The new source waits, the old one acknowledges."""
    monkeypatch.setattr(clock, "wait_until", lambda condition, *_, **__: condition())
    lab = Standing("semisync")
    failover.failover(lab, "replica")
    failover.rejoin(lab, "source")

    assert "semi-sync True" in lab.nodes["replica"].told
    told = lab.nodes["source"].told
    assert told.index("semi-sync False") < told.index("acknowledge"), "its applier would wait for a replica of its own"
