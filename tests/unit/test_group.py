"""What a MySQL group takes for whole, what its nodes say of it, and what proves it."""

import json

import pytest
import yaml
from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.case import Case
from replication_lab.model.lab.topology import HOST_PORTS
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.replication import group
from replication_lab.replication.role_changes import NodeState
from replication_lab.world import catalogue
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.fakes.parts import LabOfServers, let_the_server_answer

NODES = ("node1", "node2", "node3")
ALL = dict.fromkeys(NODES, "ONLINE")


class Server:
    """A member with the state that a test gives it."""

    def __init__(self, name, states=ALL, primary="node1", view="1:3", read_only=None):
        self.name, self.states, self.primary, self.view = name, states, primary, view
        self.read_only = name != primary if read_only is None else read_only
        self.waited, self.asked = [], []

    def rows(self, sql):
        if sql == group.SELF:
            return [{"me": f"uuid-{self.name}", "name": "a-name", "view_id": self.view, "certify": "2", "apply": None}]
        return [
            {"member_id": f"uuid-{name}", "member_host": name, "member_state": state, "member_role": self._role(name)}
            for name, state in self.states.items()
        ]

    def _role(self, name):
        return "PRIMARY" if name == self.primary else "SECONDARY"

    def value(self, sql):
        self.asked.append(sql)
        return int(self.read_only) if "super_read_only" in sql else f"uuid-{self.name}"

    def position(self):
        return {"position": f"{self.name}:9"}

    def wait_for(self, position, seconds=50):
        self.waited.append(position)


@pytest.fixture(autouse=True)
def servers_answer(monkeypatch):
    let_the_server_answer(monkeypatch, Replica, wait_for="wait_for")
    let_the_server_answer(monkeypatch, BinaryLog, position="position")


class Silent(Server):
    def rows(self, sql):
        raise LabError(f"{self.name} does not answer", "a server")


class Lab(LabOfServers):
    def __init__(self, **servers):
        super().__init__("group", Server, **servers)


def kind(**servers):
    return replication.of(Lab(**servers))


CUT_OFF = Server("node1", states={"node1": "ONLINE", "node2": "UNREACHABLE", "node3": "UNREACHABLE"})
WITHOUT_NODE3 = {"node1": "ONLINE", "node2": "ONLINE"}


@pytest.mark.parametrize(
    ("server", "stands", "says", "size"),
    [
        (Server("node1"), True, "PRIMARY", 3),
        (Server("node1", primary="node2"), True, "SECONDARY", 3),
        (Server("node1", read_only=True), False, "PRIMARY", 3),
        (Server("node1", states=WITHOUT_NODE3), False, "PRIMARY", 2),
        (Server("node1", states=ALL | {"node3": "RECOVERING"}), False, "PRIMARY", 3),
        (Server("node1", states={"node1": "ERROR"}), False, "ERROR", 1),
        (Server("node1", states={}), False, "OFFLINE", 0),
        (CUT_OFF, False, "no majority", 1),
        (Silent("node1"), False, "", 0),
    ],
)
def test_a_node_is_whole_when_all_are_online_with_one_primary(server, stands, says, size):
    """A primary that does not accept writes yet is not whole; a node without a majority knows it."""
    others = {name: Server(name, primary=server.primary) for name in NODES[1:]}
    nodes = kind(node1=server, **others)

    assert stands == nodes.stands("node1")
    assert (says, size) == (nodes.looks()["node1"].says, nodes.looks()["node1"].size)


def test_a_node_in_the_view_that_it_last_had_is_not_whole():
    """Reached again after its expulsion it lists all as ONLINE, with itself as the primary, for a moment."""
    others = {name: Server(name, primary="node3", view="1:5") for name in NODES[1:]}
    nodes = kind(node1=Server("node1"), **others)

    assert not any(nodes.stands(name) for name in NODES)


def test_the_primary_is_where_tables_are_made():
    """As a node names it that is ONLINE in a majority: one that was cut off still takes itself for the primary."""
    others = {name: Server(name, states={"node2": "ONLINE", "node3": "ONLINE"}, primary="node3") for name in NODES[1:]}

    assert "node3" == kind(node1=CUT_OFF, **others).writer().name
    assert "node3" == kind(node1=Silent("node1"), **others).writer().name


def test_without_a_majority_there_is_no_primary():
    """The error says what to look at."""
    with pytest.raises(LabError, match="reports a primary"):
        group.primary(Lab(**{name: Silent(name) for name in NODES}))


def test_a_node_says_whom_it_sees_and_clients_write_on_the_primary():
    """Without a majority it accepts no write; a group without an answer is written at its first node."""
    cut = kind(node1=CUT_OFF)

    assert cut.state("node1", "member") == NodeState(
        "ONLINE, no majority: accepts no write, sees node1 in view 1:3", ["node1"]
    )
    assert "node2" == kind(**{name: Server(name, primary="node2") for name in NODES}).written_at()
    assert "node1" == kind(**{name: Silent(name) for name in NODES}).written_at()


def test_a_member_without_a_majority_serves_nobody_and_the_way_on_is_said():
    """The survivor names itself as the only member; the setting that forces it is taken back at once."""
    alone = kind(node1=CUT_OFF, node2=Server("node2", states={}), node3=Silent("node3"))
    lost = alone.lost_majority()

    assert [alone.hindrance(name) for name in ("node1", "node2")] == ["no majority", "OFFLINE"]
    assert lost is not None and lost.found == "no majority: node1 reaches 1 of 3 members"
    assert "./lab sql node1" in lost.next_step
    assert "group_replication_force_members = 'uuid-node1'" in lost.next_step, "the address of its own"
    assert "SET GLOBAL group_replication_force_members = ''" in lost.next_step


def test_a_member_in_the_view_that_it_last_had_does_not_serve_yet():
    """It was frozen, and its group has excluded it."""
    assert kind(node2=Server("node2", view="1:2")).hindrance("node2") == "not in the view of its group"
    assert kind(node2=Silent("node2")).hindrance("node2") == "does not answer"


def test_a_member_that_is_cut_off_from_a_group_that_serves_lost_no_majority():
    """Nothing has to be forced: it comes back by itself."""
    others = {name: Server(name, states={"node2": "ONLINE", "node3": "ONLINE"}, primary="node3") for name in NODES[1:]}

    assert kind(node1=CUT_OFF, **others).lost_majority() is None
    assert kind().lost_majority() is None and kind().hindrance("node2") == ""


def test_all_nodes_wait_for_what_the_primary_has():
    """The primary itself too: it may have been elected a moment ago."""
    nodes = kind(**{name: Server(name, primary="node2") for name in NODES})
    nodes.wait_until_caught_up()

    assert [[{"position": "node2:9"}]] * 3 == [nodes.server(name).waited for name in NODES]


def test_a_drill_that_names_its_primary_gets_it():
    """By the group's own function; a node that is it already is left alone."""
    lab = Lab()
    group.Group(lab).take_over("node1")
    assert [] == lab.node("node1").server().asked


def test_a_member_becomes_the_primary_while_another_one_is_down():
    """As after the loss of a member; the group is asked at the primary that it has."""

    class Obeying(Server):
        def execute(self, sql):
            self.asked.append(sql)
            for name, each in lab.servers.items():
                each.primary, each.read_only = "node2", name != "node2"

    two = {"node1": "ONLINE", "node2": "ONLINE"}
    lab = Lab(node1=Obeying("node1", states=two), node2=Server("node2", states=two), node3=Silent("node3"))
    done = group.Group(lab).take_over("node2")

    assert (done.old, done.source, done.replaced) == ("node1", "node2", [])
    assert lab.servers["node1"].asked == ["SELECT group_replication_set_as_primary('uuid-node2')"]


def test_without_a_majority_no_member_is_made_the_primary(refused):
    """The error has the statement that restores the majority; a name that is none is refused, too."""
    alone = kind(node1=CUT_OFF, node2=Server("node2", states={}), node3=Silent("node3"))

    assert "group_replication_force_members" in refused(alone.take_over, "node2").next_step
    assert "unknown node" in refused(kind().take_over, "node4").found


def test_a_drill_forces_the_membership_of_the_member_that_is_left():
    """As an operator does: once, with its own address, and the setting is taken back; with a majority nothing is."""

    class Forced(Server):
        def execute(self, sql):
            self.asked.append(sql)
            self.states = {"node1": "ONLINE"}

    alone = Forced("node1", states=CUT_OFF.states)
    lab = Lab(node1=alone, node2=Silent("node2"), node3=Silent("node3"))
    done = group.Group(lab).take_over_after_loss("node1")

    said = [sql for sql in alone.asked if sql.startswith("SET")]
    assert said == [f"SET GLOBAL {group.FORCE} = 'uuid-node1'", f"SET GLOBAL {group.FORCE} = ''"]
    assert (done.source, done.replaced) == ("node1", [])

    alone.asked.clear()
    group.Group(lab).take_over_after_loss("node1")
    assert not [sql for sql in alone.asked if sql.startswith("SET")]


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("", None),
        ("[group] leads: no node has more than 6 transactions", ("led", 0)),
        ("Distributed recovery will transfer data using: Incremental recovery from a group donor", ("binary log", 0)),
        ("Distributed recovery will transfer data using: Cloning from a remote group donor.", ("clone", 0)),
    ],
)
def test_how_a_node_came_back_is_read_from_its_log(log, found):
    """One that never left logs nothing of it."""
    assert found == group.Group.returned(log)


def test_a_commit_waits_for_the_nearer_of_two_peers():
    """With one peer at 10 ms and one at 85 ms the group goes on at 10 ms: two of three are a majority."""
    names = {"node1-node2": "wan-85ms", "node1-node3": "metro-10ms", "node2-node1": "wan-85ms"}
    toxics = catalogue.toxics_on(names)

    assert 10 == kind().majority_trip("node1", toxics)
    # A commit that waited for a jittered link may have waited for its shortest round trip.
    assert 8 == kind().majority_trip("node1", {**toxics, "node1-node3": catalogue.toxic("14ms±6ms")})


def commits(monkeypatch, milliseconds):
    monkeypatch.setattr(CommitLatency, "__init__", lambda *_: None)
    monkeypatch.setattr(CommitLatency, "commits", lambda _, count: [milliseconds] * count)


WAN = {f"{one}-{other}": catalogue.toxic("wan-85ms") for one in NODES for other in NODES if one != other}


def proofs(monkeypatch, milliseconds=175.0, **servers):
    commits(monkeypatch, milliseconds)
    return [proof.ok for proof in kind(**servers).prove(WAN)]


def test_a_whole_group_is_proved(monkeypatch):
    """One view, a commit that waited, a row that arrived."""
    lab = {name: Rows(name) for name in NODES}

    assert [True, True, True] == proofs(monkeypatch, **lab)


class Rows(Server):
    """A member that also counts rows."""

    rows_held = 7

    def value(self, sql):
        return self.rows_held if "COUNT" in sql else super().value(sql)


def test_a_commit_that_waits_for_nobody_is_noticed(monkeypatch):
    """It took a hundredth of a round trip."""
    assert [True, False, True] == proofs(monkeypatch, 0.9, **{name: Rows(name) for name in NODES})


def test_a_row_that_does_not_arrive_is_noticed(monkeypatch):
    """On one node of the two."""
    behind = Rows("node3")
    behind.rows_held = 6

    assert [True, True, False] == proofs(monkeypatch, node1=Rows("node1"), node2=Rows("node2"), node3=behind)


def test_nodes_of_different_views_are_noticed(monkeypatch):
    """Each lists three, and they are not the same three at the same time."""
    monkeypatch.setattr(group.clock, "wait_until", lambda *_arguments, **_options: None)
    lab = {name: Rows(name) for name in NODES} | {"node2": Rows("node2", view="1:4")}

    assert [False, True, True] == proofs(monkeypatch, **lab)


def proofs_of_a_load(monkeypatch, meanwhile=lambda servers: None, fastest=12.0, links=WAN):
    """Return the proofs of a case of `lab ask` with 10 ms on links, when `meanwhile` happens during its load."""
    commits(monkeypatch, 12.0)
    monkeypatch.setattr(group.clock, "wait_until", lambda *_arguments, **_options: None)
    servers = {name: Rows(name) for name in NODES}
    with kind(**servers).arranged(Case("far", toxics=dict.fromkeys(links, catalogue.toxic("metro-10ms")))) as watch:
        meanwhile(servers)
        return [proof.ok for proof in watch.proofs(5, fastest)]


def test_a_commit_need_not_wait_for_a_member_that_no_majority_needs(monkeypatch):
    """One of three is far away: the two near ones are a majority."""
    far = [link for link in WAN if "node3" in link]

    assert False not in proofs_of_a_load(monkeypatch, fastest=0.4, links=far)


def expel(servers):
    for name in NODES[:2]:
        servers[name].states, servers[name].view = WITHOUT_NODE3, "1:4"


@pytest.mark.parametrize(
    ("meanwhile", "fastest", "ok"),
    [
        (lambda servers: None, 12.0, [True, True]),
        (lambda servers: None, 0.4, [False, True]),
        (expel, 12.0, [True, False]),
    ],
)
def test_a_load_on_a_group_that_changed_or_did_not_wait_is_noticed(monkeypatch, meanwhile, fastest, ok):
    """A witness observes that the group is the same all the time."""
    assert proofs_of_a_load(monkeypatch, meanwhile, fastest)[:2] == ok


def test_every_ordered_pair_of_a_group_has_a_link():
    """Two ports each, for XCom and for SQL, the same number at both ends; the one for SQL can be reached."""
    topology = catalogue.topology("group")
    file = yaml.safe_load((catalogue.COMPOSE / "group.yaml").read_text())

    assert sorted(link.name for link in topology.links) == sorted(WAN)
    for entry in json.loads(file["configs"]["links"]["content"]):
        source, target, *channel = entry["name"].split("-")
        number = f"4{source[-1]}{target[-1]}{'06' if channel == ['sql'] else '61'}"
        assert (entry["listen"], entry["upstream"]) == (f"0.0.0.0:{number}", f"{target}:{number}")
    for link in topology.links:
        assert link.proxies == (link.name, f"{link.name}-sql") and link.server == link.target
        assert f"127.0.0.1:{HOST_PORTS}:{link.port}" in file["services"]["toxiproxy"]["ports"]


def test_members_dial_each_other_with_a_handshake():
    """Toxiproxy accepts connections for a dead node: without a handshake, old messages reach the restarted node."""
    settings = (catalogue.COMPOSE / "group" / "group.cnf").read_text().splitlines()

    assert "group-replication-ssl-mode = REQUIRED" in settings
