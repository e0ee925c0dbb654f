"""When is a copy there again? What each kind of replication takes for whole, and what its nodes say of themselves."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from replication_lab import replication as redundancy
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.evidence import View
from replication_lab.model.lab.succession import TakenOut
from replication_lab.replication import drbd as machines
from replication_lab.replication import failover, pacemaker, source_replica
from replication_lab.replication import galera as cluster
from replication_lab.replication import kind as nodes
from replication_lab.replication.source_replica import Followers
from replication_lab.world import catalogue
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import ResourceStatus
from replication_lab.world.machines.pacemaker import PacemakerCluster
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.galera import GaleraNode, GaleraStatus
from replication_lab.world.mysql.replica import Replica, ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync, SemiSyncStatus

from tests.fakes.parts import LabOfNames, LabOfServers, let_the_server_answer


class Server:
    """A server with the answers that a test gives it."""

    def __init__(self, name, **says):
        self.name, self.says = name, says

    def _said(self, what):
        found = self.says.get(what)
        if isinstance(found, Exception):
            raise found
        return found() if callable(found) else found

    def version(self):
        return self._said("version") or "fake"

    def replication(self):
        return self._said("replication")

    def semisync(self):
        return self._said("semisync")

    def galera(self):
        return self._said("galera")

    def position(self):
        return {"position": "0-1-9"}

    dialect = dialects()["mariadb"]

    def transactions(self):
        return self._said("transactions") or 0

    def wait_for(self, position, seconds=50):
        self._said("wait_for")


@pytest.fixture(autouse=True)
def servers_answer(monkeypatch):
    let_the_server_answer(monkeypatch, Replica, status="replication", wait_for="wait_for")
    let_the_server_answer(monkeypatch, SemiSync, status="semisync")
    let_the_server_answer(monkeypatch, GaleraNode, status="galera")
    let_the_server_answer(monkeypatch, BinaryLog, position="position", transactions="transactions")


class Lab(LabOfServers):
    def __init__(self, topology, **servers):
        super().__init__(topology, Server, **servers)


SILENCE = LabError("it does not answer", "a connection")
GOOD = ReplicaStatus(True, True, "toxiproxy", 21002, "", 0)
ASYNC, WAITING = (
    SemiSyncStatus(False, False, 0, 0, 0, 0, None, 0),
    SemiSyncStatus(True, True, 1, 9, 0, 0, "AFTER_SYNC", 10_000),
)


def as_seen(kind, name):
    """Return how a drill sees one node."""
    return kind.soon(kind.view, name) or nodes.SILENT


def pair(topology="async", source=ASYNC, **replica):
    says = {"replication": GOOD, "semisync": ASYNC, **replica}
    return redundancy.of(Lab(topology, source=Server("source", semisync=source), replica=Server("replica", **says)))


@pytest.mark.parametrize(
    ("replica", "stands", "says"),
    [
        ({}, True, "replicating"),
        ({"replication": None}, False, "serving"),
        ({"replication": ReplicaStatus(False, True, "toxiproxy", 1, "", None)}, False, "not connected"),
        ({"replication": ReplicaStatus(True, False, "toxiproxy", 1, "", None)}, False, "not applying"),
        ({"replication": SILENCE}, False, ""),
        ({"wait_for": LabError("not caught up", "every row")}, False, "replicating"),
    ],
)
def test_a_replica_is_whole_when_it_is_in_step(replica, stands, says):
    """Both threads run, and it has what its source had a moment ago."""
    kind = pair(**replica)

    assert kind.stands("replica") == stands
    assert as_seen(kind, "replica").says == says


def test_it_is_in_vain_to_wait_for_a_replica_whose_thread_has_ended_with_an_error(refused):
    """The error is the server's own; a replica that is only behind, or does not answer, is waited for."""
    ended = ReplicaStatus(True, False, "toxiproxy", 1, "1062 duplicate", None, "1062 duplicate")
    error = refused(pair(replication=ended).refuse_ended, "replica")

    assert error.found == "replica has stopped replicating: 1062 duplicate" and error.next_step
    for found in (GOOD, ReplicaStatus(True, False, "toxiproxy", 1, "", None), SILENCE, None):
        pair(replication=found).refuse_ended("replica")


def test_a_replica_that_has_ended_under_a_failover_manager_is_waited_for(monkeypatch):
    """The manager stops it while it changes what it follows."""
    kind = pair(replication=ReplicaStatus(True, False, "toxiproxy", 1, "1062 duplicate", None, "1062 duplicate"))
    monkeypatch.setattr(kind.lab, "manager", object(), raising=False)

    kind.refuse_ended("replica")


def test_a_waiting_source_is_whole_once_a_commit_of_ours_was_acknowledged(monkeypatch):
    """Its status is stale right after a change."""
    asked = []

    def wait(server, seconds):
        asked.append(server.name)
        raise LabError("no commit was acknowledged", "one")

    refuses = [True, False]
    monkeypatch.setattr(source_replica, "wait_until_acknowledged", wait)
    monkeypatch.setattr(failover, "takes_writes", lambda *_: not refuses.pop(0))
    kind = pair("semisync", WAITING)

    assert as_seen(kind, "source").says == "semi-sync ON"
    # A source that a manager has replaced would get a commit that no other server has.
    assert not kind.stands("source") and asked == []
    assert not kind.stands("source") and asked == ["source"]
    assert pair("async").stands("source")


def test_copies_know_whom_they_came_from():
    """A leaf's rows are its relay's."""
    assert Followers(Lab("chain")).holders() == {"source": "", "relay": "source", "leaf": "relay"}


def member(state="Synced", size=3, primary=True):
    return GaleraStatus(True, state, primary, size, 3, "H", 9, 1, 2, 0.0, None, ())


@pytest.mark.parametrize(
    ("says", "stands", "seen"),
    [
        (member(), True, "Primary of 3"),
        (member(size=2), False, "Primary of 2"),
        (member(state="Joining"), False, "Primary of 3"),
        (member(primary=False, size=1), False, "non-Primary"),
        (SILENCE, False, "does not answer"),
    ],
)
def test_a_member_is_whole_in_a_cluster_of_all(says, stands, seen):
    """Synced, Primary, and no member missing."""
    kind = redundancy.of(Lab("galera", node1=Server("node1", galera=says)))

    assert isinstance(kind, cluster.GaleraCluster)
    assert (kind.stands("node1"), str(as_seen(kind, "node1"))) == (stands, seen)


def test_what_members_count_is_added_up():
    """Certification failures and aborts of all nodes."""
    lab = Lab("galera", **{name: Server(name, galera=member()) for name in ("node1", "node2", "node3")})

    counted = cluster.GaleraCluster(lab).counted()
    of_flow_control = {name for name in counted if name.startswith("flow_control")}

    assert {name: counted[name] for name in counted.keys() - of_flow_control} == {"cert_failures": 3, "bf_aborts": 6}
    assert len(of_flow_control) == 6


WHOLE = ResourceStatus(
    connection="Connected", role="Primary", peer_role="Secondary", disk="UpToDate", peer_disk="UpToDate"
)


class States:
    """The command in a machine that answers with /proc/drbd; with a status of None it has ended."""

    def __init__(self, status: ResourceStatus | None):
        self.status, self.has_ended = status, False

    def ask(self) -> str:
        found = self.status
        if not found:
            self.has_ended = True
            raise LabError("the command has ended")
        return (
            f" 0: cs:{found.connection} ro:{found.role}/{found.peer_role} ds:{found.disk}/{found.peer_disk} C r-----\n"
        )

    def close(self) -> None:
        self.has_ended = True


@pytest.mark.parametrize(
    ("status", "version", "stands"),
    [
        (WHOLE, "fake", True),
        (WHOLE, SILENCE, False),
        (ResourceStatus(connection="WFConnection", role="Primary", disk="UpToDate"), "fake", False),
    ],
)
def test_a_machine_is_whole_when_both_disks_are_and_the_primary_serves(monkeypatch, status, version, stands):
    """A secondary has no server that could be asked."""
    monkeypatch.setattr(drbd.Peer, "status", lambda self: status)
    monkeypatch.setattr(drbd.Peer, "states", lambda self: States(status))
    kind = redundancy.of(Lab("drbd", node1=Server("node1", version=version)))

    assert isinstance(kind, machines.Machines)
    assert kind.stands("node1") == stands
    assert as_seen(kind, "node1").says == f"{status.role}, {status.connection}"


def test_a_machine_whose_command_has_ended_is_asked_by_a_new_one(monkeypatch):
    """As after a restart; until then it does not answer, and one command gives all answers while it lasts."""
    states = [States(WHOLE), States(None), States(WHOLE)]
    monkeypatch.setattr(drbd.Peer, "states", lambda self: states.pop(0))
    kind = redundancy.of(Lab("drbd", node1=Server("node1")))
    begun = states[0]
    said = [str(as_seen(kind, "node1")), str(as_seen(kind, "node1"))]
    begun.status = None
    said += [str(as_seen(kind, "node1")) for _ in range(3)]

    up = "Primary, Connected, UpToDate/UpToDate, in sync"
    assert said == [up, up, "does not answer", "does not answer", up]


def test_under_a_cluster_manager_nobody_is_promoted_by_hand(monkeypatch):
    """A standby of its peer decides which machine serves first; after that the manager is waited for."""
    told = []
    monkeypatch.setattr(machines, "_after_dialling", lambda *_: {})
    monkeypatch.setattr(
        PacemakerCluster, "wait_until_served_by", lambda self, *names: told.append(("served by", *names)) or "node2"
    )
    lab: Any = Lab("drbd-ha")
    lab.state_of = lambda name: ("exited", 1) if name == "node1" else ("running", 0)
    lab.start_again = lambda name: told.append(("start", name))
    kind: Any = pacemaker.ManagedMachines(lab)

    kind.wait_until_startable = lambda *_: None
    kind.standby = lambda name: told.append(("standby", name)) or TakenOut(name, 1.0)
    kind.online = lambda name, _tell=None: told.append(("online", name))
    assert kind.take_over("node2").replaced == kind.take_over("node1").replaced == []
    for name in kind.take_over_after_loss("node2").replaced:
        kind.take_back(name, discard_errant=True)

    either, moved = ("served by", "node1", "node2"), [("standby", "node2"), ("online", "node2"), ("served by", "node1")]
    assert told == [either, either, *moved, ("served by", "node2"), ("start", "node1"), ("online", "node1")]


def test_a_frozen_node_is_not_waited_for(monkeypatch):
    """It never answers, and the drill continues."""
    monkeypatch.setattr(nodes, "LOOK_SECONDS", 0.01)
    thawed = threading.Event()
    kind = redundancy.of(Lab("single", server=Server("server", version=lambda: thawed.wait(5))))

    assert as_seen(kind, "server").error == "does not answer"
    thawed.set()


def test_a_node_whose_container_is_frozen_is_not_even_asked():
    """Each second of waiting would be a second of the freeze."""
    kind = pair(replication=SILENCE)
    kind.lab.states = lambda: {"source": "paused", "replica": "running"}
    kind.view = lambda name: pytest.fail("it was asked") if name == "source" else View("replicating")

    assert {name: view.error for name, view in kind.looks().items()} == {"source": "does not answer", "replica": ""}
    assert kind.answering(kind.view) == {"replica": View("replicating")}


def test_clients_write_on_the_primary_and_on_the_first_machine_where_none_answers():
    """A lab that is half down is shown all the same."""
    assert machines.Machines(Optioned(primary="node2")).written_at() == "node2"
    assert machines.Machines(Optioned(primary="")).written_at() == "node1"


def test_a_replica_says_what_stopped_it_and_its_source_whether_it_waits():
    """In the words of lab status."""
    kind = pair(replication=ReplicaStatus(False, True, "toxiproxy", 21002, "", None))

    assert kind.state("replica", "replica").says == "does not replicate: stopped from toxiproxy:21002, lag unknown"
    assert kind.state("source", "source").says == "semi-sync off"
    assert pair("semisync", WAITING).state("source", "source").says.startswith("semi-sync ON, AFTER_SYNC, 1 replica(s)")


@pytest.mark.parametrize(
    ("written", "applied", "said"),
    [(7, 7, "0 s behind"), (32_006, 9_317, "22689 transactions behind (the server says 0 s)"), (7, 8, "0 s behind")],
)
def test_a_replica_says_how_many_transactions_it_is_behind(written, applied, said):
    """A server says 0 s as long as it has applied all that it has received."""
    kind = pair(transactions=applied)
    kind.lab.servers["source"].says["transactions"] = written

    assert kind.state("replica", "replica").says == f"replicates from toxiproxy:21002, {said}"


@pytest.mark.parametrize(
    ("status", "switched"), [(replace(WAITING, active=False), [False, True]), (WAITING, []), (ASYNC, [])]
)
def test_a_source_that_stays_asynchronous_is_switched_off_and_on(monkeypatch, status, switched):
    """As a person would do it; a commit in each round trip keeps it from waiting again by itself."""
    told = []
    monkeypatch.setattr(SemiSync, "set", lambda _, enabled: told.append(enabled))
    monkeypatch.setattr(source_replica, "RESUME_SECONDS", 0)
    kind = pair("semisync", source=status)
    kind.lab.answers = lambda _name: True
    left = kind.resume_waiting()

    assert told == switched
    assert left == (["semi-sync of source stays off: switch it off and on"] if switched else [])


class Optioned(LabOfNames):
    """Two machines that take options and put them in force, unless they are deaf."""

    name = "lab-drbd"
    topology = catalogue.topology("drbd")

    def __init__(self, deaf=False, primary="node1"):
        self.told, self.deaf, self.flushes, self.primary = [], deaf, "yes", primary

    def state_of(self, _node):
        return "running", 0

    def run(self, node, _guest, _program, word, *words):
        if word == "status":
            roles = "Primary/Secondary" if node == self.primary else "Secondary/Primary"
            return f" 0: cs:Connected ro:{roles} ds:UpToDate/UpToDate C\n"
        if word == "settings":
            return f"\tdisk-flushes\t{self.flushes};\n"
        self.told.append((node, word, *words))
        self.flushes = "yes" if word == "adjust" or self.deaf else "no"
        return ""


OPTIONS = {"disk": ["--disk-flushes=no"], "mount": ["barrier=0"]}


def test_two_machines_have_a_drills_options_and_then_those_of_their_file():
    """DRBD's on both, the file system's where it is mounted."""
    lab = Optioned()
    pair = machines.Machines(lab)
    pair.set_options(OPTIONS)
    during = list(lab.told)
    pair.set_options({})

    assert [
        ("node1", "options", "disk", "--disk-flushes=no"),
        ("node2", "options", "disk", "--disk-flushes=no"),
    ] == during[:2]
    assert [("node1", "remount", "barrier=0")] == during[2:]
    assert [("node1", "adjust"), ("node2", "adjust"), ("node1", "remount")] == lab.told[3:]


def test_options_that_were_taken_and_are_not_in_force_are_no_drill(refused):
    """What it promised with them would hold without them."""
    assert "disk-flushes" in refused(machines.Machines(Optioned(deaf=True)).set_options, OPTIONS).expected
