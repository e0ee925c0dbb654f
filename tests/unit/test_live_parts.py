"""Does a live view wait for nothing that hangs, show only what a node confirms, and count what is lost?"""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from replication_lab import faults, replication
from replication_lab.lab import nodes as lab_nodes
from replication_lab.live import checked, node_control, node_watch, roles, session
from replication_lab.live.checked import Checked
from replication_lab.live.ledger_check import missing
from replication_lab.live.node_control import NodeControl, actions, check_limits
from replication_lab.live.node_watch import NodeWatch, Seen
from replication_lab.live.roles import Roles
from replication_lab.live.route import Route, RoutedClient
from replication_lab.live.tally import LoadTally
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd, encode
from replication_lab.model.live.view import ActOnNode, ViewedLink
from replication_lab.replication import received
from replication_lab.replication.kind import SILENT
from replication_lab.workloads.ledger import Ledger
from replication_lab.world import catalogue, clock, lock
from replication_lab.world.mysql.client import TransactionAnswer

from tests.fakes.lab import FakeLab

WAIT = 5


@pytest.fixture
def lab(fake_world):
    """Return a semi-synchronous lab of the fake world."""
    return FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_an_old_answer_is_none(lab, monkeypatch):
    """A node that hangs is shown as silent, although it has never refused an answer."""
    watch = NodeWatch(lab, "source")
    watch._seen = Seen(View("serving"), clock.timer(), 7)
    assert watch.seen.view.says == "serving"
    now = clock.timer()
    monkeypatch.setattr(clock, "timer", lambda: now + node_watch.FRESH_SECONDS + 0.1)

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
    monkeypatch.setattr(type(kind), "take_over", lambda *_: lost)
    monkeypatch.setattr(type(kind), "take_back", lambda *_: None)
    monkeypatch.setattr(type(kind), "view", lambda *_: view)
    monkeypatch.setattr(lab.servers["replica"], "settings", lambda *_: {"read_only": read_only})
    monkeypatch.setattr(node_control.nodes, "act", act or (lambda *_: []))
    control = NodeControl(lab, "replica", {}, lambda *_: None)
    control.do(action, ActOnNode())
    assert control._busy.acquire(timeout=WAIT)
    control._busy.release()
    return control


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
    monkeypatch.setattr(faults, "made", lambda *_: Unproved())
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
            raise lock.LabTaken(f"{name} is in use by `lab migrate`", "that command to finish")
        yield


@pytest.mark.parametrize("action", node_control.ACTIONS)
def test_a_click_while_another_command_changes_the_lab_is_answered_by_what_it_is(lab, monkeypatch, action):
    """Whatever the click is for; nothing is done, and nothing is undone at the end."""
    done = []
    monkeypatch.setattr(lock, "lab_held", Taken(1))
    control = acted(lab, monkeypatch, action, act=lambda *_: done.append("acted"))

    assert control.says == f"{lab.name} is in use by `lab migrate`; that command to finish" and not control.seen
    control.restore()
    assert done == []


def test_clicks_on_two_nodes_at_the_same_moment_are_both_done(lab, monkeypatch):
    """They share the lab's lock: each waits here until the other one acts, too."""
    both = threading.Barrier(2, timeout=WAIT)
    monkeypatch.setattr(node_control.nodes, "act", lambda *_: [Proof(f"{both.wait()} acts", "done", True)])
    controls = [NodeControl(lab, name, {}, lambda *_: None) for name in ("source", "replica")]
    for control in controls:
        control.do("kill", ActOnNode())
    for control in controls:
        assert control._busy.acquire(timeout=WAIT)

    assert [control.seen for control in controls] == [True, True]


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
def test_a_promoted_node_is_the_source_although_nobody_follows_it(lab, found, then):
    """The servers cannot tell: the dead source still counts as one, and the new one has no replica yet."""
    known = Roles(lab, SimpleNamespace(node="source"))
    known.promoted("replica")

    assert found | known._after_promotion(found) == then
    assert known._route.node == "replica"
    assert roles.EVERY_SECONDS > 1


# --- the load ---------------------------------------------------------------------------------------------------------


def test_a_client_follows_a_promotion_with_its_next_transaction():
    """Its connection to the old node is closed, also if that still answers."""
    told = []

    class Connection:
        def transact(self, statements):
            told.append("transact")
            return TransactionAnswer(Outcome.ACKNOWLEDGED)

        def close(self):
            told.append("close")

    route = SimpleNamespace(node="source")
    client = RoutedClient(route, lambda: None)
    client._client = Connection()
    client.transact(["a"])
    route.node = "replica"
    client.transact(["b"])
    client.transact(["c"])

    assert told == ["transact", "close", "transact", "transact"]
    assert issubclass(Route, object)


def test_a_load_with_a_rate_begins_no_more_than_that(monkeypatch):
    """Each of two clients begins a transaction every half second at 4/s; one that is late does not catch up."""
    now, pauses, took, stop = [0.0], [], [0.0, 0.0, 2.0], 7

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
            unless.set()

    monkeypatch.setattr(clock, "timer", lambda: now[0])
    monkeypatch.setattr(clock, "pause", pause)
    from replication_lab.workloads.ledger import _Writer

    _Writer(1, "source", Ledger({"source": 2}, rate=4), 0.0, lambda _: None, threading.Event()).run(Client())

    assert pauses == [0.5] * stop


def sampled(lab, monkeypatch):
    """Return the view of a lab whose nodes answered just now, and its containers' states, without a thread."""
    states = dict.fromkeys(("source", "replica"), "running")
    monkeypatch.setattr(lab, "states", lambda: dict(states), raising=False)
    monkeypatch.setattr(type(lab), "another", lambda self: self, raising=False)
    monkeypatch.setattr(
        session.ViewSession,
        "_control_of",
        lambda _self, link: SimpleNamespace(
            watch=SimpleNamespace(round_trip_ms=85.0),
            was="none",
            view=lambda carries: ViewedLink(
                name=link.name, source="source", target="replica", asked="none", was="none", carries=carries
            ),
        ),
    )
    monkeypatch.setattr(session.disks, "by_node", lambda _: {})
    monkeypatch.setattr(type(replication.of(lab)), "written_at", lambda _: "source")
    view = session.ViewSession(lab, 4, 400.0, lambda _: None, "1")
    for watch in view.sampler.watches.values():
        watch._seen = Seen(View("semi-sync ON" if watch.name == "source" else "replicating"), clock.timer())
    view._tick()
    return view, states


def test_a_killed_replica_is_explained_at_once(lab, monkeypatch):
    """As soon as its container has ended, and not with the next sample."""
    view, states = sampled(lab, monkeypatch)
    shown = []
    assert "acknowledged row is on two nodes" in view.state().explain[0]
    assert [link.carries for link in view.state().links] == [True]
    view.subscribe(shown.append)
    states["replica"] = "exited"
    view._look_at_containers()

    assert shown[-1].explain[0].startswith("replica: does not answer: no replica can acknowledge a commit of source")
    assert {node.name: node.state for node in shown[-1].nodes}["replica"] == "does not answer"


def test_commits_have_waited_since_the_last_one(lab, monkeypatch):
    """Not since the sample that counted it, which may be a second later."""
    view, _ = sampled(lab, monkeypatch)
    now = clock.timer()
    view.tally.write(encode(Invoked(1, 1, "source", 0.1, "")))
    view.tally.write(encode(StatementEnd(1, 0.2, Outcome.ACKNOWLEDGED, 0, "")))
    monkeypatch.setattr(clock, "timer", lambda: now + 0.9)
    view._tick()
    assert "two nodes" in view.state().explain[0]
    monkeypatch.setattr(clock, "timer", lambda: now + 1.7)

    assert "have waited for 2 s" in view.state().explain[0]


def test_the_ledger_is_compared_when_clients_write_to_another_node():
    """Also if another command promoted it; what was lost is not known before."""
    told = []
    view = SimpleNamespace(
        **{"_add_new_links": lambda: None, "_samples": [], "_notes": [], "_levels": {}, "clients": 4},
        **{
            "_recorder": SimpleNamespace(note=lambda _: None),
            "_checked": SimpleNamespace(check=lambda: told.append(1)),
        },
        **{"_route": SimpleNamespace(node="source"), "_written_at": "source"},
        sampler=SimpleNamespace(sample=lambda: None),
        show=lambda: SimpleNamespace(nodes=[]),
    )
    session.ViewSession._tick(view)
    assert told == []
    view._route.node = "replica"
    session.ViewSession._tick(view)
    session.ViewSession._tick(view)

    assert told == [1] and view._notes == ["Clients write to replica instead of source."]


def test_a_comparison_that_breaks_off_does_not_end_the_view(lab, monkeypatch):
    """The lab is removed meanwhile: the error is shown, and the last figure stays one of before."""
    lack = LabError("node1 ended with 137", "exit status 0")
    monkeypatch.setattr(type(replication.of(lab)), "holders", lambda _: (_ for _ in ()).throw(lack))
    monkeypatch.setattr(checked, "missing", lambda *_: 0)
    found = Checked(lab, LoadTally(), lambda: "source", lambda: 7.0, lambda: None)._compared()

    assert (found.says, found.lost, found.checked_at) == ("node1 ended with 137", None, None)


def test_a_second_load_on_a_lab_is_refused_and_a_view_without_one_is_not(lab, monkeypatch, tmp_path):
    """The first one to end would remove the table, and all rows of the other one would count as lost."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    with session._only_load(lab, 4):
        with pytest.raises(LabError, match=f"another command writes to the ledger of {lab.name}"):
            session._only_load(lab, 1).__enter__()
        with session._only_load(lab, 0):
            pass
    with session._only_load(lab, 1):
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
