"""Is a failover manager refused where it does not fit, and is a drill under one judged by what it did?"""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab.lab import managers
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill import Step
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.lab import companion
from replication_lab.model.lab.companion import AskedCompanion, CompanionSetting, settings_apart
from replication_lab.model.lab.manager import MANAGER, ManagerKind, refuse_unmanageable, roles_in
from replication_lab.model.lab.succession import TakenOver
from replication_lab.model.question.question import Question
from replication_lab.report import templates
from replication_lab.report.drill_text import text
from replication_lab.runner import asked_drills, drill_set, succession
from replication_lab.runner.drill import DrillRequest
from replication_lab.runner.succession import ByManager, TakesWrites
from replication_lab.world import catalogue, clock, compose_template

from tests.unit.synthetic_drill import HISTORY, evidence, fault, summed_up

PROGRAMS = [name for name in catalogue.managers() if catalogue.manager(name).image]


# --- asked for --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("aftre", "30"), ("after", "0"), ("after", "soon")])
def test_a_setting_that_the_manager_does_not_have_is_refused(refused, name, value):
    """Before anything starts."""
    topology = catalogue.topology("async")

    assert name in refused(managers.manager_of, topology, "mariadb", "none", {name: value}).found


def test_an_unknown_manager_and_a_setting_without_one_are_refused(refused):
    """The message names those that there are."""
    topology = catalogue.topology("async")

    assert "keepalive" in refused(managers.manager_of, topology, "mariadb", "keepalive", {}).found
    assert "without a manager" in refused(managers.manager_of, topology, "mariadb", "", {"after": "3"}).found
    assert managers.manager_of(topology, "mariadb", "", {}) is None


@pytest.mark.parametrize("name", catalogue.managers())
@pytest.mark.parametrize("topology", ["galera", "group", "drbd", "single"])
def test_a_manager_of_replicas_is_refused_where_none_follows_a_source(refused, name, topology):
    """A cluster elects by itself."""
    assert topology in refused(managers.manager_of, catalogue.topology(topology), "mariadb", name, {}).found


def test_a_manager_is_refused_for_a_relay_and_for_an_engine_that_it_cannot_manage(refused):
    """Of each node: one that is of another engine is enough."""
    kind = ManagerKind("A.", engines=["mysql-5.7", "mysql-8.0"])
    semisync = catalogue.topology("semisync")

    assert "relay" in refused(refuse_unmanageable, "one", kind, catalogue.topology("chain"), ["mysql-8.0"]).found
    assert "mariadb" in refused(refuse_unmanageable, "one", kind, semisync, ["mysql-8.0", "mariadb"]).found
    refuse_unmanageable("one", kind, semisync, ["mysql-8.0", "mysql-5.7"])
    refuse_unmanageable("one", ManagerKind("A.", relays=True), catalogue.topology("chain"), ["mariadb"])


def test_an_address_that_no_manager_moves_is_no_endpoint(refused):
    """It would lead nowhere."""
    address = AskedCompanion("address")

    assert "without a manager" in refused(managers.refuse_no_address, address, None).found
    assert "manager none" in refused(managers.refuse_no_address, address, AskedCompanion("none")).found
    managers.refuse_no_address(address, AskedCompanion("keepalived"))
    managers.refuse_no_address(AskedCompanion("haproxy"), None)


def test_a_manager_only_observes_while_a_person_changes_roles():
    """It acts again afterwards, also after an error; without one nothing is done."""
    done = []
    manager = SimpleNamespace(quiet=lambda: done.append("quiet"), manage=lambda: done.append("manage"))
    with pytest.raises(LabError), managers.quieted(SimpleNamespace(manager=manager)):
        done.append("failover")
        raise LabError("no", "yes")
    with managers.quieted(SimpleNamespace(manager=None)):
        pass

    assert done == ["quiet", "failover", "manage"]


def test_an_engine_is_refused_before_a_drill_starts(refused, monkeypatch):
    """The engine is known only then."""
    only = ManagerKind("A.", engines=["mysql-8.0"])
    monkeypatch.setattr(catalogue, "manager", lambda _name: only)
    drills = drill_set.under_manager([drill_set.load("async", "lose-source")], "one", {})

    assert "for mariadb" in refused(drill_set.make_ready, "async", "mariadb", drills).found


def test_the_settings_of_a_manager_are_told_apart_from_those_of_servers():
    """By the word before the dot."""
    assert settings_apart({"manager.after": "5", "sync_binlog": "0"}, MANAGER) == ({"sync_binlog": "0"}, {"after": "5"})


def test_a_question_varies_the_manager_and_each_gets_the_settings_that_it_has():
    """A setting that none of them has is refused."""
    vary = {"manager": ["none", "keepalived"]}
    question = Question(
        topologies=["async", "semisync"], vary=vary, settings={"manager.after": "3"}, drill="lose-source"
    )
    labs = [case.lab.manager for case in experiments.asked(question).cases]

    drills = [planned.drill.manager for planned in asked_drills.planned(experiments.asked(question), "mariadb")]

    assert [each.name for each in labs] == ["none", "keepalived"] * 2 == drills[:4]
    assert dict(labs[0].settings) == {"after": 3}
    with pytest.raises(LabError, match="aftre"):
        experiments.asked(msgspec.structs.replace(question, settings={"manager.aftre": "3"}))


def test_a_manager_is_an_option_of_up_drill_and_ask():
    """An attached project has its own."""
    said = CliRunner().invoke(cli.cli, ["up", "galera", "--manager", "none"])
    assert "galera" in str(said.exception)
    said = CliRunner().invoke(cli.cli, ["drill", "--lab", "shop", "--manager", "none"])
    assert "manager is its own" in said.exception.expected
    said = CliRunner().invoke(cli.cli, ["ask", "async", "--manager", "none,keepalive", "--drill", "lose-source"])
    assert "keepalive" in str(said.exception)


# --- its services -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("topology", ["async", "semisync", "semisync-3"])
def test_the_overlay_of_a_manager_labels_its_services(name, topology):
    """So that a running lab tells which manager it has, and nothing of it is left behind."""
    found, kind = catalogue.topology(topology), catalogue.manager(name)
    asked = companion.asked(MANAGER, name, kind.settings, {})
    text = compose_template.companion(catalogue.MANAGERS, asked, "lab-x", Path("x.yaml"), found)
    services = yaml.load(text, Loader=_Loader)["services"]
    nodes = [node.name for node in found.nodes]

    for service in kind.services(nodes):
        assert services[service]["labels"]["replication-lab.manager"] == name
    assert all("replication-lab" in one.get("labels", {}) for service, one in services.items() if service not in nodes)


class _Loader(yaml.SafeLoader):
    """Reads Compose's own tags as the values behind them."""


_Loader.add_multi_constructor("!", lambda loader, _tag, node: loader.construct_sequence(node))


def test_the_view_of_a_manager_is_a_role_and_a_node_a_line():
    """What it prints besides is no role."""
    assert roles_in("source a\nreplica b\nodd c: alone\n\nall good\n") == {"a": "source", "b": "replica"}


def test_each_setting_of_a_manager_is_said_in_words():
    """`lab up` prints them."""
    kind = ManagerKind(
        "A.", settings={"interval": CompanionSetting(1, "seconds"), "fall": CompanionSetting(2, "checks")}
    )

    assert str(companion.asked(MANAGER, "one", kind.settings, {"fall": 3})) == "one (interval 1, fall 3)"


# --- a drill ----------------------------------------------------------------------------------------------------------


def test_a_drill_under_a_manager_has_clients_at_each_node():
    """The manager chooses which of them takes over."""
    drill = drill_set.load("semisync-3", "lose-source-and-link")
    (found,) = drill_set.under_manager([drill], "none", {"after": "3"})

    assert set(found.clients) == {"source", "replica1", "replica2"} and found.clients["source"] == 4
    assert (found.manager, found.manager_settings, found.changes_roles) == ("none", {"after": 3}, True)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_a_drills_file_can_name_a_manager():
    """With settings; a planned switchover, which the lab does itself, is refused under one."""
    given = "about: A.\nclients: {source: 2}\nmanager: none\nmanager_settings: {after: 2}\nexpected: []\n"
    drill = drill_set.parse("own", catalogue.topology("async"), given)

    assert drill.manager_settings == {"after": 2} and drill.clients == {"source": 2, "replica": 1}
    with pytest.raises(LabError, match="switchover"):
        drill_set.under_manager([drill_set.load("async", "switchover")], "none", {})


def test_a_drill_under_a_manager_gets_a_lab_with_one(monkeypatch, tmp_path):
    """The lab is renewed before one with another manager."""
    plain, started = drill_set.load("async", "cut-link"), []
    monkeypatch.setattr(drill_set.up, "up", lambda asked, _tell: started.append(asked.manager) or FakeUp())
    monkeypatch.setattr(drill_set, "run_drill", lambda _lab, asked, *_: Evidence(drill=asked.drill, at=""))
    with drill_set.Labs(drill_set.lab_request("async", "mariadb", []), print) as labs:
        for drill in (plain, *drill_set.under_manager([plain], "none", {"after": "3"})):
            labs.do(DrillRequest(drill, 7), tmp_path / "ledger")

    assert started == [None, companion.asked(MANAGER, "none", catalogue.manager("none").settings, {"after": 3})]


class FakeUp:
    """A lab that came up."""

    def down(self):
        pass


# --- its verdict ------------------------------------------------------------------------------------------------------


def managed(*acted):
    """Return the result of a drill under a manager with these faults."""
    drill = msgspec.structs.replace(evidence().drill, manager="none", manager_settings={"after": 3}, steps=[])
    return judge(evidence(drill=drill, acted=list(acted)), HISTORY)


def step(failover, **changes):
    """Return a fault from 2 to 5 s in whose step a failover is needed, or not."""
    own = fault(2, 2, 5, 6)
    return msgspec.structs.replace(own, step=msgspec.structs.replace(own.step, failover=failover), **changes)


def verdict(result, figure):
    return next(one.verdict for one in result.judgements if one.figure == figure)


def test_a_manager_that_does_nothing_is_never_green():
    """The failover that was needed did not come."""
    result = managed(step("node2"))

    assert result.figures["not_failed_over"] == 1 and result.figures["failovers"] == 0
    assert verdict(result, "not_failed_over") is Verdict.REFUTED and result.exit_code == 1
    assert "1 needed and did not come" in text(summed_up(result))


def test_a_failover_that_comes_in_time_is_as_needed():
    """What is left to do is told."""
    result = managed(step("node2", promoted=[(4.2, "node2")], left=["node1 takes writes, too"]))

    assert (result.figures["not_failed_over"], result.figures["false_failovers"]) == (0, 0)
    assert result.figures["left_to_do"] == 1 and result.exit_code == 0
    assert "left to do: node1 takes writes, too" in text(summed_up(result))
    row = templates.macros("drilled.j2").managed(result.figures, "less than 0.4 s cannot be seen")
    assert row == (
        "1 failover, 0 needed and did not come, 0 not needed; two nodes took writes at once for 0.0 s "
        "(less than 0.4 s cannot be seen); 1 left to do"
    )


def test_a_failover_in_a_pause_that_ended_is_a_false_one():
    """So is one that comes when the fault has been undone."""
    result = managed(step("", promoted=[(4.2, "node2")]), step("node2", promoted=[(4.0, "node2"), (5.5, "node3")]))

    assert result.figures["false_failovers"] == 2 and result.figures["failovers"] == 3
    assert verdict(result, "false_failovers") is Verdict.REFUTED
    # Of a source that ended, as on a full disk, it may come or not.
    assert managed(step("", promoted=[(4.2, "node2")], ended=["node1"])).figures["false_failovers"] == 0


def test_a_drill_without_a_manager_has_none_of_its_figures():
    """Kept records are judged as before."""
    assert not {"failovers", "left_to_do"} & judge(evidence(), HISTORY).figures.keys()


# --- acting -----------------------------------------------------------------------------------------------------------


class Nodes:
    """A source and a replica, and the moment at which the replica takes over."""

    def __init__(self):
        self.taken, self.adopted = [], []

    def written_at(self):
        return "source"

    def take_over_after_loss(self, node):
        self.taken.append(node)
        return TakenOver("source", node, replaced=["source"])

    def adopt(self, node, old):
        self.adopted.append((node, old))
        return TakenOver(old, node, replaced=["replica"]), ["replica takes writes, too"]


@pytest.fixture
def acting(monkeypatch):
    """Return the succession by a person, its nodes and its readings; a pause passes the time, and reads."""
    time, nodes = SimpleNamespace(now=100.0), Nodes()
    monkeypatch.setattr(clock, "timer", lambda: time.now)
    drill = drill_set.under_manager([drill_set.load("async", "lose-source")], "none", {"after": "3"})[0]
    writes = TakesWrites(SimpleNamespace())
    readings = writes._readings = {"source": [(100.0, True)], "replica": [(100.0, False)]}

    def pause(seconds, unless=None):
        time.now += seconds
        readings["replica"].append((time.now, bool(nodes.taken)))
        if time.now > until["back"] and not nodes.taken:
            readings["source"].append((time.now, True))

    until = {"back": float("inf")}
    monkeypatch.setattr(clock, "pause", pause)
    monkeypatch.setattr(clock, "wait_until", _waiting(pause))
    person = ByManager(SimpleNamespace(), nodes, drill, print, lambda: time.now - 100, writes)
    return person, nodes, until, drill.steps[0]


def _waiting(pause):
    def wait_until(is_so, _what, seconds, every=0.1):
        for _ in range(int(seconds / every)):
            if is_so():
                return
            pause(every)
        raise AssertionError("it never was")

    return wait_until


def test_a_person_lets_the_replica_take_over_after_the_time_that_was_set(acting):
    """Not before, and what that person had to type is told."""
    person, nodes, _, asked = acting
    person.wait(asked, 0.0)
    assert nodes.taken == []

    change = person.settle(asked, person.lead(asked))
    assert nodes.taken == ["replica"] and 3 <= change.promoted_s <= 4 and not person.has_undone
    assert change.to == "replica" and change.left == ["./lab failover replica", "./lab rejoin source"]


def test_a_person_does_nothing_about_a_source_that_comes_back_in_time(acting):
    """It was silent for less than that."""
    person, nodes, until, _ = acting
    until["back"] = 102.0
    asked = Step(fault="pause", targets=["source"], seconds=6)
    person.wait(asked, 0.0)
    assert not person.has_undone
    change = person.settle(asked, person.lead(asked))

    assert nodes.taken == [] and change.to == "" and change.promoted == []


def test_a_failover_ends_the_freeze_of_the_old_source(acting):
    """It is restarted, so it is not looked at for being frozen any more."""
    person, nodes, _, _ = acting
    person.wait(Step(fault="pause", targets=["source"], seconds=6, failover="replica"), 0.0)

    assert nodes.taken == ["replica"] and person.has_undone


def test_the_node_that_takes_writes_at_the_end_is_the_source(monkeypatch):
    """Also if another one was promoted meanwhile and refuses writes again: its rows are not to win."""
    time = SimpleNamespace(now=100.0)
    monkeypatch.setattr(clock, "timer", lambda: time.now)
    monkeypatch.setattr(clock, "wait_until", lambda *_, **__: None)
    monkeypatch.setattr(ByManager, "refuse_unmanaged", lambda _self: None)
    nodes = Nodes()
    writes = TakesWrites(SimpleNamespace())
    writes._zero = 90.0
    replica = [(95.0, False), (96.0, True), (99.9, False)]
    writes._readings = {"source": [(95.0, True), (99.9, True)], "replica": replica}
    (drill,) = drill_set.under_manager([drill_set.load("semisync", "manager-cut-off")], "keepalived", {})
    lab = SimpleNamespace(name="x", manager=SimpleNamespace(quiet=lambda: None))
    by = ByManager(lab, nodes, drill, print, lambda: time.now - 90, writes)
    change = by.settle(drill.steps[0], by.lead(drill.steps[0]))

    assert change.promoted == [(6.0, "replica")] and change.to == "source"
    assert nodes.adopted == [("source", "source")] and change.replaced == ["replica"]


def test_a_manager_that_does_not_see_the_nodes_ends_the_drill(monkeypatch, acting):
    """Nothing could be proved about it: the drill is UNKNOWN."""
    view = SimpleNamespace(name="keepalived", view=dict)
    nodes = SimpleNamespace(arrangement=lambda: ({"source": "source", "replica": "replica"}, []))
    monkeypatch.setattr(managers.replication, "of", lambda _lab: nodes)
    monkeypatch.setattr(clock, "wait_until", lambda *_, **__: nullcontext())
    (drill,) = drill_set.under_manager([drill_set.load("async", "lose-source")], "keepalived", {})

    with pytest.raises(LabError, match="it sees no node"):
        ByManager(SimpleNamespace(name="x", manager=view), Nodes(), drill, print, lambda: 0.0, acting[0]._writes)


def test_a_node_has_begun_to_take_writes_only_if_it_refused_them_before():
    """A source that was killed and comes back is no failover, and neither is a reading that was late."""
    writes = TakesWrites(SimpleNamespace())
    writes._zero = 10.0
    writes._readings = {"a": [(10, True), (19, True)], "b": [(10, False), (12, False), (12.5, True), (14, True)]}

    assert writes.begun() == [(2.5, "b")]
    assert succession.spans([], 10) == []
