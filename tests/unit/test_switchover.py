"""A planned switchover: a replica becomes the source and the source its replica, or everything is as it was before."""

import io
from types import SimpleNamespace

import pytest
from replication_lab import faults, replication
from replication_lab.cli import output
from replication_lab.faults.writers import Switchover
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import parse_drill
from replication_lab.model.lab.manager import ManagerKind
from replication_lab.model.lab.succession import TakenOver
from replication_lab.replication import failover, switchover
from replication_lab.replication.role_changes import SWITCHOVER
from replication_lab.report import drilled
from replication_lab.runner import drill_set
from replication_lab.witnesses import servers
from replication_lab.world import catalogue, clock
from replication_lab.world.mysql.replica import ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync, SemiSyncStatus
from rich.console import Console

from tests.fakes import standing
from tests.fakes.machine import doubts
from tests.fakes.standing import Standing

nodes_answer, lab = standing.nodes_answer, standing.lab
OFF = SemiSyncStatus(False, False, 0, 0, 0, 0, None, 0)
WAITS = SemiSyncStatus(True, True, 2, 0, 0, 0, "AFTER_SYNC", 9000, 2)


@pytest.fixture(autouse=True)
def without_semisync(monkeypatch):
    monkeypatch.setattr(SemiSync, "status", lambda _: OFF)


def state_of(lab):
    """Return what a switchover changes: whom each node follows, whether it accepts writes, and how it starts."""
    follows = {name: source for name, source in failover.following(lab).items()}
    return (
        follows,
        {name: node.read_only for name, node in lab.nodes.items()},
        {k: v for k, v in lab.files.items() if v},
    )


def test_a_replica_becomes_the_source_and_the_source_its_replica(lab):
    """The other replica follows it, too; it accepts writes last, and all of it outlasts a restart."""
    done = switchover.switchover(lab, "near")
    follows, read_only, _ = state_of(lab)

    assert (done.old, done.source, done.repointed, done.lost) == ("source", "near", ["source", "far"], 0)
    assert follows == {"near": "", "source": "near", "far": "near"}
    assert read_only == {"near": False, "source": True, "far": True}
    assert lab.nodes["near"].told[-1] == {"read_only": 0}
    assert lab.nodes["source"].told[:2] == [{"read_only": 1}, "resume"]
    assert lab.files["near", failover.ROLE] == b"--read-only=0\n"
    assert lab.files["source", failover.ROLE] == b"--read-only=1\n"


def test_the_way_back_leads_to_the_old_state(lab):
    """The old source accepts writes again, and the others follow it."""
    before = state_of(lab)[:2]
    switchover.switchover(lab, "near")
    switchover.switchover(lab, "source")

    assert state_of(lab)[:2] == before


def _fails(lab, node, method, nth=1):
    """Let the `nth` call of a node's method fail."""
    calls, real = [], getattr(lab.nodes[node], method)

    def failing(*args, **options):
        calls.append(args)
        if len(calls) == nth:
            raise LabError("sabotaged", "a step that succeeds")
        return real(*args, **options)

    setattr(lab.nodes[node], method, failing)


@pytest.mark.parametrize(
    ("node", "method", "nth"),
    [
        ("near", "wait_for", 1),
        ("far", "wait_for", 2),
        ("source", "set_global", 1),
        ("near", "end_replication", 1),
        ("near", "forget", 1),
        ("source", "resume", 1),
        ("source", "follow", 1),
        ("far", "end_replication", 1),
        ("far", "follow", 1),
        ("near", "set_global", 1),
    ],
)
def test_whatever_fails_leaves_the_old_state(lab, refused, node, method, nth):
    """The source accepts writes, and both replicas follow it, as if nothing had been tried."""
    before = state_of(lab)
    _fails(lab, node, method, nth)

    refused(switchover.switchover, lab, "near")
    assert state_of(lab) == before


def test_an_interruption_leaves_the_old_state_too(lab):
    """Ctrl-C while the new source applies the rest."""
    before = state_of(lab)
    lab.nodes["near"].stuck = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        switchover.switchover(lab, "near")
    assert state_of(lab) == before


def test_a_source_whose_commits_wait_is_not_killed(lab, refused):
    """A failover kills it; a planned switchover has time, and leaves it as it is."""
    lab.nodes["source"].waits = True
    before = state_of(lab)

    assert "commits or locks wait there" in refused(switchover.switchover, lab, "near").found
    assert "killed" not in lab.nodes["source"].told
    lab.nodes["source"].waits = False
    assert state_of(lab) == before


def _is(lab, node, **state):
    had = ReplicaStatus(True, True, "toxiproxy", lab.nodes[node].port, "", 0)
    lab.nodes[node].replication = lambda: ReplicaStatus(**{**vars(had), **state})


@pytest.mark.parametrize(
    ("arrange", "node", "found"),
    [
        (lambda lab: _is(lab, "near", delay_seconds=30), "near", "near is delayed by 30 s"),
        (lambda lab: _is(lab, "far", delay_seconds=30), "near", "far is delayed by 30 s"),
        (lambda lab: _is(lab, "near", connected=False), "near", "near does not replicate"),
        (lambda lab: setattr(lab.nodes["far"], "applying", False), "near", "far does not replicate"),
        (lambda lab: setattr(lab.nodes["far"], "silent", True), "near", "far does not answer"),
        (lambda lab: setattr(lab.nodes["source"], "read_only", True), "near", "source accepts no writes"),
        (lambda lab: None, "source", "source is not a replica"),
    ],
)
def test_a_lab_that_is_not_ready_is_refused_before_anything_is_changed(lab, refused, arrange, node, found):
    """With the node, and why."""
    arrange(lab)

    assert found in refused(switchover.switchover, lab, node).found
    assert not any(each.told for each in lab.nodes.values()) and not any(lab.files.values())


def test_what_was_received_and_not_applied_is_told_with_its_remedy(lab, refused):
    """The statement that applies it."""
    lab.nodes["near"].got, lab.nodes["near"].applying = "0-1-12", False
    error = refused(switchover.switchover, lab, "near")

    assert "2 transactions received and not applied" in error.found and "START SLAVE SQL_THREAD" in error.next_step


def test_the_leaf_of_a_chain_cannot_become_the_source(refused, monkeypatch, lab):
    """Its relay can, and the leaf goes on following it."""
    chain = Standing("chain")
    assert "leaf replicates from relay, which is a replica" in refused(switchover.switchover, chain, "leaf").found

    done = switchover.switchover(chain, "relay")
    assert done.repointed == ["source"]
    assert failover.following(chain) == {"relay": "", "source": "relay", "leaf": "relay"}


def test_the_new_source_waits_as_the_old_one_did_and_not_before_its_replicas_are_there(refused, monkeypatch, lab):
    """With a wait count of 2, writes that came first would hang."""
    three, asked = Standing("semisync-3"), []
    monkeypatch.setattr(SemiSync, "status", lambda _: WAITS)
    monkeypatch.setattr(SemiSync, "set", lambda self, *how: asked.append((self.server.name, *how)))
    switchover.switchover(three, "replica2")
    assert asked == [("source", False), ("replica2", True, "AFTER_SYNC", 9000, 2)]

    before = state_of(other := Standing("semisync-3"))
    one = SemiSyncStatus(**{**vars(WAITS), "replicas": 1})
    monkeypatch.setattr(SemiSync, "status", lambda _: one)
    assert "2 replica(s) that acknowledge" in refused(switchover.switchover, other, "replica2").found
    assert state_of(other) == before


def test_a_kind_without_a_switchover_says_why(refused, monkeypatch):
    """Every node of Galera accepts writes; a single server has no other."""
    topologies = [catalogue.topology(name) for name in catalogue.topologies()]
    able = {each.replication for each in topologies if replication.kind_of(each).can_switch_over()}
    assert able == {"async", "semisync", "group", "drbd"}

    drill = "{about: x, clients: {node1: 1}, expected: [], steps: [{fault: switchover, targets: [node2], seconds: 1}]}"
    found = refused(parse_drill, "x", catalogue.topology("galera"), drill, faults.kinds()).found
    assert "switchover in galera, where no node takes over from another" in found
    galera = replication.kind_of(catalogue.topology("galera"))
    assert galera.refuses[SWITCHOVER][0] == "every node accepts writes"


def test_it_is_told_in_a_line_how_long_no_node_accepted_writes():
    """And that nothing was done where nothing was to do."""
    said = io.StringIO()
    output.say(Console(file=said, width=140), "switched", done=TakenOver("a", "b", repointed=["a"], seconds=1.23))
    output.say(Console(file=said, width=140), "switched", done=TakenOver("b", "b"))

    told = "b accepts writes in place of a; none did for 1.2 s\n  its replicas: a\nb accepts writes already\n"
    assert said.getvalue() == told


# --- as a step of a drill ---------------------------------------------------------------------------------------------


@pytest.fixture
def fault(lab, monkeypatch):
    monkeypatch.setattr(servers, "_held", {})
    return Switchover(lab, ["near"])


def test_a_step_switches_over_and_back(lab, fault):
    """Proved at both ends."""
    before = state_of(lab)[:2]
    fault.inject()
    assert doubts(fault.verify()) == [] and state_of(lab)[:2] != before
    fault.recover()
    assert doubts(fault.verify_recovered()) == [] and state_of(lab)[:2] == before


def test_a_step_that_was_refused_changes_nothing(lab, fault, refused):
    """There is nothing to undo."""
    before = state_of(lab)
    lab.nodes["near"].stuck = LabError("its applier has stopped", "one that runs")
    refused(fault.inject)
    fault.recover()

    assert state_of(lab) == before


@pytest.mark.parametrize(("node", "found"), [("near", "near refused writes"), ("source", "source accepted writes as")])
def test_roles_that_another_program_changes_meanwhile_are_seen(lab, fault, node, found):
    """By the readings of the witness, of both nodes."""
    fault.inject()
    assert _readings(lab) == []
    lab.nodes[node].read_only = not lab.nodes[node].read_only

    assert found in _readings(lab)[0]
    lab.nodes[node].read_only = not lab.nodes[node].read_only
    fault.recover()
    fault.close()
    assert _readings(lab) == []


def _readings(lab):
    return [said for name, node in lab.nodes.items() for said in servers._contrary(lab.name, name, node)]


def test_a_question_says_that_its_drill_is_a_planned_switchover():
    """The servers do not decide that by themselves."""
    assert (
        drilled._takes_over(drill_set.load("group", "switchover")) == "a planned switchover makes node2 accept writes"
    )


def test_a_way_back_that_was_none_is_noticed(lab, fault, monkeypatch):
    """Sabotage: the second switchover does nothing."""
    fault.inject()
    monkeypatch.setattr(switchover, "switchover", lambda *_: TakenOver("near", "source"))
    fault.recover()

    assert "near accepts writes" in doubts(fault.verify_recovered())[0]


class OwnWay:
    """A manager that changes the source as its command is faked to."""

    name, kind = "one", ManagerKind("A.", switchover=["switch"])

    def __init__(self, lab, then):
        self.lab, self.then = lab, then

    def switch(self, node):
        for name, own in self.lab.nodes.items():
            own.read_only = name != node
        self.then(node)


def _until(condition, *_args, **_options):
    """Wait for what another thread does."""
    while not condition():
        pass


def test_a_manager_makes_a_planned_change_its_own_way(lab, monkeypatch):
    """The lab only looks: who follows the new source, and who does not."""
    monkeypatch.setattr(clock, "wait_until", _until)

    def then(node):
        lab.nodes[node].port = None
        lab.nodes["source"].port = failover.link_port(lab, node, "source")

    lab.manager = OwnWay(lab, then)
    done = switchover.by_manager(lab, lab.manager, "near")

    assert (done.old, done.source, done.repointed) == ("source", "near", ["source"])
    assert done.left == {"far": "it follows source"} and done.seconds >= 0
    assert lab.files["near", failover.ROLE] == b"--read-only=0\n"
    assert lab.files["source", failover.ROLE] == b"--read-only=1\n"


def test_a_manager_whose_own_way_fails_is_an_error(lab, monkeypatch):
    """Also if its command says that all is well, and no server was told anything."""
    monkeypatch.setattr(clock, "wait_until", _until)
    lab.manager = OwnWay(lab, lambda _node: None)
    lab.manager.switch = lambda _node: None

    with pytest.raises(LabError, match="did not let near accept writes"):
        switchover.by_manager(lab, lab.manager, "near")


def test_a_manager_without_a_way_of_its_own_is_refused_in_words(lab, refused):
    """Before anything changes; the words say what an operator does."""
    keepalived = SimpleNamespace(name="keepalived", kind=catalogue.manager("keepalived"))

    assert "an operator stops it" in refused(switchover.by_manager, lab, keepalived, "near").found
    drill = drill_set.load("semisync", "switchover")
    assert "no planned switchover" in refused(drill_set.under_manager, [drill], "keepalived", {}).found
    assert drill_set.under_manager([drill], "mha", {})[0].manager == "mha"
