"""Does a live view wait for nothing that hangs, show only what a node confirms, and count what is lost?"""

import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from replication_lab import faults, replication
from replication_lab.lab import nodes as lab_nodes
from replication_lab.live import node_control, node_watch, session
from replication_lab.live.node_control import NodeControl, actions, check_limits
from replication_lab.live.node_watch import NodeWatch
from replication_lab.live.roles import Roles, Route
from replication_lab.live.tally import LedgerCheck, LoadTally, missing
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd, encode
from replication_lab.model.lab.succession import TakenOver
from replication_lab.model.live.view import ActOnNode
from replication_lab.replication import received
from replication_lab.replication.kind import SILENT
from replication_lab.workloads.ledger import Ledger
from replication_lab.world import catalogue, clock, lock
from replication_lab.world.mysql.client import ApplicationClient, TransactionAnswer

from tests.fakes.lab import FakeLab

WAIT = 5


@pytest.fixture
def lab(fake_world):
    """Return a semi-synchronous lab of the fake world."""
    return FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_an_old_answer_is_none(lab):
    """A node that hangs is shown as silent, although it has never refused an answer."""
    watch = NodeWatch(lab, "source")
    watch.ticking.act()
    assert watch.seen.view.says == "serving" and watch.seen.transactions is not None
    clock.pause(node_watch.FRESH_SECONDS + 0.1)

    assert watch.seen.view == SILENT and watch.seen.transactions is None


@pytest.mark.parametrize(
    ("topology", "state", "role", "writes_here", "possible"),
    [
        ("semisync", "running", "source", True, {"stop", "kill", "pause", "restart"}),
        ("semisync", "running", "replica", False, {"stop", "kill", "pause", "restart", "promote"}),
        ("semisync", "running", "alone", False, {"stop", "kill", "pause", "restart", "rejoin"}),
        ("semisync", "exited", "source", True, {"start"}),
        ("semisync", "paused", "replica", False, {"resume"}),
        ("semisync", "missing", "replica", False, set()),
        ("galera", "running", "member", False, {"stop", "kill", "pause", "restart", "write-here"}),
        ("group", "running", "member", False, {"stop", "kill", "pause", "restart", "promote"}),
        ("single", "running", "source", True, {"stop", "kill", "pause", "restart"}),
        ("drbd", "running", "peer", False, {"stop", "kill", "pause", "restart", "promote"}),
    ],
)
def test_only_what_is_possible_is_offered(topology, state, role, writes_here, possible):
    """By the container's state, the role and the kind of replication."""
    kind = replication.kind_of(catalogue.topology(topology))(SimpleNamespace(topology=catalogue.topology(topology)))

    assert set(actions(state, role, kind, writes_here=writes_here, has_disks=False)) == possible
    if state == "running":
        assert "disk-limit" in actions(state, role, kind, writes_here=writes_here, has_disks=True)


def acted(lab, monkeypatch, action, view=None, read_only="OFF", act=None, lost=""):
    """Return a node's control after an action on a kind whose nodes answer so."""
    kind = replication.of(lab)
    monkeypatch.setattr(type(kind), "take_over", lambda *_: TakenOver("source", "replica", lacks=lost))
    monkeypatch.setattr(type(kind), "take_back", lambda *_: None)
    monkeypatch.setattr(type(kind), "view", lambda *_: view)
    monkeypatch.setattr(lab.servers["replica"], "settings", lambda *_: {"read_only": read_only})
    monkeypatch.setattr(node_control.nodes, "act", act or (lambda *_: []))
    return done(lab, "replica", action)[0]


def done(lab, *names_and_action):
    """Return the controls of nodes after the same action on each of them."""
    *names, action = names_and_action
    ended = threading.Semaphore(0)
    controls = [NodeControl(lab, name, {}, lambda _name, _action, done: done and ended.release()) for name in names]
    for control in controls:
        control.do(action, ActOnNode())
    assert all(ended.acquire(timeout=WAIT) for _ in controls)
    return controls


@pytest.mark.parametrize(
    ("action", "view", "read_only"),
    [
        ("promote", View("serving"), "ON"),
        ("promote", View(error="no answer"), "OFF"),
        ("write-here", View(error="non-Primary"), "OFF"),
        ("rejoin", View(error="replication stopped"), "ON"),
    ],
)
def test_an_action_that_the_node_does_not_confirm_was_not_seen(lab, monkeypatch, action, view, read_only):
    """Sabotage: the command ends without an error, and the node says otherwise."""
    assert acted(lab, monkeypatch, action, view, read_only).seen is False
    assert acted(lab, monkeypatch, action, View("replicating"), "OFF").seen is True


def test_a_promotion_that_loses_something_says_so(lab, monkeypatch):
    """Its count and its transactions; one that loses nothing does not."""
    assert "lost: 2 transactions" in acted(lab, monkeypatch, "promote", View("serving"), lost="2 transactions").says
    assert "lost" not in acted(lab, monkeypatch, "promote", View("serving")).says


class Unproved:
    """A fault without a proof."""

    inject = recover = close = lambda _self: None
    verify = verify_recovered = lambda _self: []


@pytest.mark.parametrize(("action", "state"), [("kill", "running"), ("start", "exited"), ("restart", "running")])
def test_an_action_without_a_proof_was_not_seen(lab, monkeypatch, action, state):
    """Sabotage: its fault proves nothing."""
    monkeypatch.setattr(lab_nodes, "refuse_in_use", lambda _: None)
    monkeypatch.setattr(lab, "node", lambda _: SimpleNamespace(state=lambda: (state, 0)))
    monkeypatch.setattr(faults, "made", lambda *_, **__: Unproved())
    monkeypatch.setattr(received, "keep_of_ending", lambda *_: None)

    assert acted(lab, monkeypatch, action, act=lab_nodes.act).seen is False


def test_a_node_is_started_at_the_end_although_its_kill_was_not_seen(lab, monkeypatch):
    """A proof that failed does not mean that nothing was done."""
    told = []

    def act(_lab, verb, names):
        told.append((verb, *names))
        raise LabError("the proof broke off", "a proof")

    control = acted(lab, monkeypatch, "kill", act=act)
    monkeypatch.setattr(node_control.nodes, "act", lambda _lab, verb, names: told.append((verb, *names)))
    control.restore()

    assert control.seen is False and told == [("kill", "replica"), ("start", "replica")]


class Taken:
    """The lab's lock, which another command holds for the first `refusals` attempts."""

    def __init__(self, refusals):
        self.left = refusals

    @contextmanager
    def __call__(self, name, doing):
        self.left -= 1
        if self.left >= 0:
            raise lock.LabTaken(f"{name} is in use by `lab disk migrate`", "that command to finish")
        yield


@pytest.mark.parametrize("action", node_control.ACTIONS)
def test_a_click_while_another_command_changes_the_lab_is_answered_by_what_it_is(lab, monkeypatch, action):
    """Whatever the click is for; nothing is done, and nothing is undone at the end."""
    done = []
    monkeypatch.setattr(lock, "lab_held", Taken(1))
    control = acted(lab, monkeypatch, action, act=lambda *_: done.append("acted"))

    assert control.says == f"{lab.name} is in use by `lab disk migrate`; that command to finish" and not control.seen
    control.restore()
    assert done == []


def test_clicks_on_two_nodes_at_the_same_moment_are_both_done(lab, monkeypatch):
    """They share the lab's lock: each waits here until the other one acts, too."""
    both = threading.Barrier(2, timeout=WAIT)
    monkeypatch.setattr(node_control.nodes, "act", lambda *_: [Proof(f"{both.wait()} acts", "done", True)])

    assert [control.seen for control in done(lab, "source", "replica", "kill")] == [True, True]


def test_what_was_done_to_a_node_is_undone_once_another_command_lets_the_lab_be(lab, monkeypatch):
    """At the end of the page."""
    told = []

    def act(lab, verb, names):
        with lock.lab_held(lab.name, verb):
            told.append((verb, *names))
            return []

    control = acted(lab, monkeypatch, "kill", act=act)
    monkeypatch.setattr(node_control.nodes, "act", act)
    monkeypatch.setattr(lock, "lab_held", Taken(3))
    control.restore()

    assert told == [("kill", "replica"), ("start", "replica")]


@pytest.mark.parametrize("limits", [{"rpm": 1}, {"write_iops": -1}])
def test_a_limit_that_there_is_not_is_refused(refused, limits):
    """By its name, and with those that there are."""
    assert "write_iops" in refused(check_limits, limits).expected


@pytest.mark.parametrize(
    ("found", "then"),
    [
        ({"replica": "alone", "source": "source"}, {"replica": "source", "source": "former source"}),
        ({"replica": "alone", "source": "alone"}, {"replica": "source", "source": "alone"}),
        ({"replica": "source", "source": "replica"}, {"replica": "source", "source": "replica"}),
    ],
)
def test_a_promoted_node_is_the_source_although_nobody_follows_it(lab, monkeypatch, found, then):
    """The servers cannot tell: the dead source still counts as one, and the new one has no replica yet."""
    monkeypatch.setattr(type(replication.of(lab)), "arrangement", lambda _: (found, []))
    route = Route(lab, "source")
    known = Roles(lab, route)
    known.promoted("replica")
    known.ticking.act()

    assert known.roles == then and route.node == "replica"


# --- the load ---------------------------------------------------------------------------------------------------------


def test_a_client_follows_a_promotion_with_its_next_transaction(lab, monkeypatch):
    """Its connection to the old node is closed, also if that still answers."""
    told = []

    monkeypatch.setattr(ApplicationClient, "transact", lambda _self, _: told.append("transact"))
    monkeypatch.setattr(ApplicationClient, "close", lambda _self: told.append("close"))
    route = Route(lab, "source")
    client = route.connect("source")
    client.transact(["a"])
    route.node = "replica"
    client.transact(["b"])
    client.transact(["c"])

    assert told == ["transact", "close", "transact", "transact"]


def test_a_load_with_a_rate_begins_no_more_than_that(monkeypatch):
    """A client begins a transaction every half second at 2/s; one that is late does not catch up."""
    now, pauses, took, stop, ended = [0.0], [], [0.0, 0.0, 2.0], 7, threading.Event()

    class Client:
        def transact(self, _statements):
            # The third one takes two seconds.
            now[0] += took.pop(0) if took else 0.0
            return TransactionAnswer(Outcome.ACKNOWLEDGED)

        def close(self):
            pass

    def pause(seconds, unless):
        pauses.append(round(seconds, 3))
        now[0] += seconds
        if len(pauses) == stop:
            ended.set()
            unless.wait(WAIT)

    monkeypatch.setattr(clock, "timer", lambda: now[0])
    monkeypatch.setattr(clock, "pause", pause)
    with Ledger({"source": 1}, rate=2).writing(lambda _node: Client(), lambda _line: None):
        assert ended.wait(WAIT)

    assert pauses == [0.5] * stop


def tick(view, *names):
    """Do once what the view's threads of these names do every second; all of them if none is named."""
    for ticking in view.tickings:
        if not names or ticking.name in names:
            ticking.act()


def viewed(lab):
    """Return the view of a lab whose nodes and links have answered just now, without its threads."""
    lab.servers["source"].semisync = replace(lab.servers["source"].semisync, enabled=True, active=True)
    view = session.ViewSession(lab, 4, 400.0, lambda _: None)
    tick(view)
    return view


def test_a_killed_replica_is_explained_at_once(lab):
    """As soon as its container has ended, and not with the next sample."""
    view, shown = viewed(lab), []
    assert "acknowledged row is on two nodes" in view.state().explain[0]
    assert [link.carries for link in view.state().links] == [True]
    view.subscribe(shown.append)
    lab.died["replica"] = "killed"
    tick(view, "containers")

    assert shown[-1].explain[0].startswith("replica: does not answer: no replica can acknowledge a commit of source")
    assert {node.name: node.state for node in shown[-1].nodes}["replica"] == "does not answer"


def test_commits_have_waited_since_the_last_one(lab):
    """Not since the sample that counted it, which may be a second later."""
    view = viewed(lab)
    view.tally.write(encode(Invoked(1, 1, "source", 0.1, "")))
    view.tally.write(encode(StatementEnd(1, 0.2, Outcome.ACKNOWLEDGED, 0, "")))
    clock.pause(0.9)
    tick(view, "sample")
    assert "two nodes" in view.state().explain[0]
    clock.pause(0.8)

    assert "have waited for 2 s" in view.state().explain[0]


def test_the_ledger_is_compared_when_clients_write_to_another_node(fake_world):
    """Whatever made them; what was lost is not known before."""
    lab = FakeLab(fake_world(), catalogue.topology("galera"), "mariadb")
    view, compared = session.ViewSession(lab, 4, 400.0, lambda _: None), threading.Event()
    tick(view)
    assert (view.state().load.node, view.state().ledger.checked_on) == ("node1", "")
    view.subscribe(lambda state: state.ledger.checked_on and compared.set())
    lab.servers["node1"].left = True
    tick(view)
    tick(view)

    assert compared.wait(WAIT) and view.state().ledger.checked_on == view.state().load.node == "node2"
    assert view.state().notes == ["Clients write to node2 instead of node1."]


def test_a_comparison_that_breaks_off_does_not_end_the_view(lab, monkeypatch):
    """The lab is removed meanwhile: the error is shown, and the last figure stays one of before."""
    lack, shown = LabError("node1 ended with 137", "exit status 0"), threading.Event()
    monkeypatch.setattr(type(replication.of(lab)), "holders", lambda _: (_ for _ in ()).throw(lack))
    comparison = LedgerCheck(lab, LoadTally(), lambda: "source", lambda: 7.0, shown.set)
    comparison.check()
    assert shown.wait(WAIT)
    found = comparison.ledger()

    assert (found.says, found.lost, found.checked_at) == ("node1 ended with 137", None, None)


def test_a_second_load_on_a_lab_is_refused_and_a_view_without_one_is_not(lab, monkeypatch, tmp_path):
    """The first one to end would remove the table, and all rows of the other one would count as lost."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    with session.only_load(lab, 4):
        with pytest.raises(LabError, match=f"another command writes to the ledger of {lab.name}"):
            session.only_load(lab, 1).__enter__()
        with session.only_load(lab, 0):
            pass
    with session.only_load(lab, 1):
        pass


class Rows:
    """A server that has these rows."""

    def __init__(self, *ids):
        self.ids, self.asked = set(ids), []

    def value(self, statement):
        self.asked.append(statement)
        first, last = (int(word) for word in statement.split(" BETWEEN ")[1].split(" AND "))
        return len([number for number in self.ids if first <= number <= last])


def test_rows_that_a_server_lacks_are_counted():
    """By range, and large ones in parts; rows that nobody was promised do not hide one that is missing."""
    server = Rows(*range(250_000), 900)
    server.ids -= {5, 120_000}

    assert missing(server, [(0, 249_999)]) == 2
    assert len(server.asked) == 3
    assert missing(Rows(1, 2, 3), [(1, 2), (7, 8)]) == 2
    assert missing(Rows(), []) == 0
