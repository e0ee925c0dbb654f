"""Do clients of an endpoint find the address, is each answer told with its server, and is nothing green past it?"""

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pymysql
import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab.lab import endpoints
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.evidence import Evidence, ThroughEndpoint
from replication_lab.model.drill.history import Outcome, StatementEnd, encode, parse
from replication_lab.model.lab import companion
from replication_lab.model.lab.companion import settings_apart
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import parse_topology
from replication_lab.model.question.question import Question
from replication_lab.report.drill_text import text
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.workloads.ledger import BACKOFF_SECONDS, Ledger
from replication_lab.world import catalogue, clock, compose_template
from replication_lab.world.docker import endpoint
from replication_lab.world.docker.attached import AttachedEndpoint
from replication_lab.world.mysql.client import AnsweredBy, ApplicationClient, TransactionAnswer

from tests.unit.synthetic_drill import HISTORY, evidence, summed_up

HAPROXY = catalogue.endpoint("haproxy")
DEFAULTS = companion.asked(ENDPOINT, "haproxy", HAPROXY.settings, {})
IN_CONTAINERS = [name for name in catalogue.topologies() if catalogue.topology(name).replication != "drbd"]


# --- asked for --------------------------------------------------------------------------------------------------------


def test_what_is_not_set_has_the_value_of_the_endpoints_file():
    """And all that is in force is told."""
    assert dict(companion.asked(ENDPOINT, "haproxy", HAPROXY.settings, {"inter": "200"}).settings) == {
        **{name: each.default for name, each in HAPROXY.settings.items()},
        "inter": 200,
    }
    assert str(DEFAULTS) == "haproxy (inter 1000, fall 3, rise 2, max_lag 5)"


@pytest.mark.parametrize(("name", "value"), [("intre", "200"), ("inter", "0"), ("inter", "1s"), ("fall", "-1")])
def test_a_setting_that_the_endpoint_does_not_have_is_refused(refused, name, value):
    """Before anything starts."""
    assert name in refused(companion.asked, ENDPOINT, "haproxy", HAPROXY.settings, {name: value}).found


def test_settings_of_the_endpoint_are_told_apart_from_those_of_servers():
    """By the word before the dot."""
    assert settings_apart({"endpoint.inter": "5", "source.sync_binlog": "0"}, ENDPOINT) == (
        {"source.sync_binlog": "0"},
        {"inter": "5"},
    )


def test_a_setting_without_an_endpoint_and_an_endpoint_before_machines_are_refused(refused):
    """The service of a replicated disk has an address that moves; an unknown endpoint is named."""
    semisync = catalogue.topology("semisync")

    assert "without an endpoint" in refused(endpoints.endpoint_of, semisync, "", {"inter": "5"}).found
    assert "drbd" in refused(endpoints.endpoint_of, catalogue.topology("drbd"), "haproxy", {}).found
    assert "haproxi" in refused(endpoints.endpoint_of, semisync, "haproxi", {}).found
    assert endpoints.endpoint_of(semisync, "", {}) is None


@pytest.mark.parametrize("name", IN_CONTAINERS)
def test_the_overlay_of_each_topology_adds_one_service_and_an_account_on_each_node(name):
    """HAProxy writes to and reads from every node, by the settings that were asked for."""
    topology = catalogue.topology(name)
    nodes = [node.name for node in topology.nodes]
    asked = companion.asked(ENDPOINT, "haproxy", HAPROXY.settings, {"inter": 321, "fall": 7})
    text = compose_template.companion(catalogue.ENDPOINTS, asked, "lab-x", Path("x.yaml"), topology)
    found = yaml.safe_load(text)

    assert set(found["services"]) == {"haproxy", *nodes}
    assert all(len(found["services"][node]["configs"]) == 1 for node in nodes)
    config = found["configs"]["haproxy"]["content"]
    assert "inter 321ms fall 7 rise 2" in config
    for node in nodes:
        assert config.count(f"server {node} {node}:3306 check") == 2
    assert ("replication_group_members" in found["configs"]["endpoint"]["content"]) == (name == "group")


def test_a_question_varies_the_endpoint_as_it_varies_anything_else():
    """Each value is a lab of its own; the settings of a proxy do not apply where there is none."""
    question = Question(topologies=["async"], vary={"endpoint": ["none", "haproxy"]}, settings={"endpoint.fall": "1"})
    labs = [case.lab.endpoint for case in experiments.asked(question).cases]

    assert labs == [None, companion.asked(ENDPOINT, "haproxy", HAPROXY.settings, {"fall": 1})]
    assert len({case.lab for case in experiments.asked(question).cases}) == 2


def service_at(name, address):
    """Return a service of a project, with its container's names and address."""
    networks = {"shop_default": {"IPAddress": address, "Aliases": [name, "f00"]}}
    container = SimpleNamespace(name=f"shop-{name}-1", attrs={"NetworkSettings": {"Networks": networks}})
    return SimpleNamespace(network=lambda: container, addresses=lambda: {address})


def test_a_client_of_a_server_is_told_by_its_address_or_by_its_name_in_a_network():
    """Servers that resolve names show the name of the container and that of its network."""
    found = endpoint.RunningEndpoint("haproxy", HAPROXY, service_at("proxy", "10.0.0.9"), None)

    assert all(map(found.is_client, ("10.0.0.9", "shop-proxy-1.shop_default", "proxy.shop_default")))
    assert not any(map(found.is_client, ("10.0.0.1", "shop-app-1.shop_default", "")))


def test_an_endpoint_whose_own_link_was_attached_is_seen_by_the_link_s_toxiproxy():
    """A server sees the connections of the Toxiproxy; those of another link are no clients of the endpoint."""
    proxy, link = service_at("router", "10.0.0.9"), service_at("lab-toxiproxy-router-db", "10.0.0.7")
    found = AttachedEndpoint("router:6446", HAPROXY, proxy, None, None, [link])

    assert all(map(found.is_client, ("10.0.0.9", "10.0.0.7", "lab-toxiproxy-router-db.shop_default")))
    assert not found.is_client("10.0.0.8")


@pytest.mark.parametrize("silent", [2, 10**6])
def test_an_endpoint_that_is_silent_on_a_busy_machine_is_asked_again(monkeypatch, silent):
    """What it says then is the proof; if it never answers, the reason is told."""
    asked = []

    def answered_by(server):
        asked.append(server)
        if server == "endpoint" and asked.count("endpoint") <= silent:
            raise LabError("no connection")
        return AnsweredBy("1@a", "10.0.0.9")

    monkeypatch.setattr(endpoints, "answered_by", answered_by)
    monkeypatch.setattr(endpoints, "SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(clock.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(endpoints, "servers_of", lambda _lab: {"1@a": "source"})
    monkeypatch.setattr(endpoints.replication, "of", lambda _lab: SimpleNamespace(written_at=lambda: "source"))
    running = SimpleNamespace(name="haproxy", server=lambda: "endpoint", is_client=lambda _host: True)
    lab = SimpleNamespace(topology=catalogue.topology("semisync"))

    if silent == 2:
        assert endpoints._prove_writes(lab, running).ok
    else:
        with pytest.raises(LabError, match="no connection"):
            endpoints._prove_writes(lab, running)


# --- a drill ----------------------------------------------------------------------------------------------------------


def test_a_drill_at_an_endpoint_has_all_its_clients_there():
    """Also those that wrote to the node that takes over, and those that only read."""
    drill = drill_set.load("semisync", "read-before-loss-after-sync").at_endpoint("haproxy", {"inter": 500})
    before = drill_set.load("semisync", "read-before-loss-after-sync")

    assert drill.clients == {ENDPOINT: sum(before.clients.values())}
    assert bool(drill.watchers) == bool(before.watchers) and bool(drill.reads) == bool(before.reads)
    assert (drill.endpoint, drill.endpoint_settings) == ("haproxy", {"inter": 500})


def test_a_drills_file_can_name_an_endpoint():
    """The record reads the same drill again."""
    given = (
        "about: A.\nclients: {source: 2, replica: 1}\nendpoint: haproxy\nendpoint_settings: {fall: 1}\nexpected: []\n"
    )
    drill = drill_set.parse("own", catalogue.topology("async"), given)

    assert drill.clients == {ENDPOINT: 3}
    assert msgspec.json.decode(msgspec.json.encode(drill), type=type(drill)) == drill
    assert drill.endpoint_settings == {**dict(DEFAULTS.settings), "fall": 1}


def test_a_topology_can_name_the_endpoint_of_its_drills_questions_and_labs():
    """Its Compose file has it; clients across a link stay there."""
    topology = replace(catalogue.topology("async"), endpoint="haproxy")
    given = "about: A.\nclients: {source: 2}\nexpected: []\n"

    assert drill_set.parse("own", topology, given).clients == {ENDPOINT: 2}
    assert drill_set.parse("own", topology, f"{given}through: source-replica\n").clients == {"source": 2}
    assert endpoints.endpoint_of(topology, "", {}) == DEFAULTS
    text_of_file = catalogue.compose_file("async").read_text().replace("x-lab:\n", "x-lab:\n  endpoint: haproxy\n")
    assert parse_topology("async", text_of_file).endpoint == "haproxy"


def test_clients_across_a_link_cannot_be_at_an_endpoint(refused):
    """They would measure something else."""
    drill = msgspec.structs.replace(drill_set.load("async", "cut-link"), through="source-replica")

    assert "source-replica" in refused(drill.at_endpoint, "haproxy", {}).found


def test_a_drill_at_an_endpoint_gets_a_lab_with_one(monkeypatch, tmp_path):
    """Drills of a topology may differ in that: the lab is renewed between them, and not between equal ones."""
    plain, started = drill_set.load("async", "cut-link"), []
    monkeypatch.setattr(drill_set.up, "up", lambda asked, _tell: started.append(asked.endpoint) or FakeUp())
    monkeypatch.setattr(drill_set, "run_drill", lambda _lab, asked, *_: Evidence(drill=asked.drill, at=""))
    with drill_set.Labs(drill_set.lab_request("async", "mariadb", []), print) as labs:
        for drill in (plain, plain, plain.at_endpoint("haproxy", {"fall": 1}), plain):
            labs.do(DrillRequest(drill, 7), tmp_path / "ledger")

    assert started == [None, companion.asked(ENDPOINT, "haproxy", HAPROXY.settings, {"fall": 1}), None]


def test_a_drill_with_disks_of_its_own_gets_a_lab_with_them(monkeypatch, tmp_path):
    """The next one gets a lab without them; so does a case of a question."""
    plain, started = drill_set.load("async", "cut-link"), []
    full = msgspec.structs.replace(plain, storage={"source": "raid0:3"})
    monkeypatch.setattr(drill_set.up, "up", lambda asked, _tell: started.append(asked.storage) or FakeUp())
    monkeypatch.setattr(drill_set, "run_drill", lambda _lab, asked, *_: Evidence(drill=asked.drill, at=""))
    with drill_set.Labs(drill_set.lab_request("async", "mariadb", []), print) as labs:
        for drill in (full, full, plain):
            labs.do(DrillRequest(drill, 7), tmp_path / "ledger")

    assert started == [{"source": Storage(level="raid0", disks=3)}, {}]


class FakeUp:
    """A lab that came up."""

    def down(self):
        pass


def test_the_endpoint_of_an_attached_project_is_not_an_option_of_a_drill():
    """It is named by `lab attach`; a setting of a server is no setting of the endpoint."""
    for typed in ("--endpoint haproxy", "--set endpoint.fall=1"):
        said = CliRunner().invoke(cli.cli, ["drill", "--lab", "shop", *typed.split()])
        assert "named when it was attached" in str(said.exception)
    said = CliRunner().invoke(cli.cli, ["drill", "async", "--set", "sync_binlog=0"])
    assert "settings of the endpoint" in said.exception.expected


# --- its ledger -------------------------------------------------------------------------------------------------------


class Answers:
    """A client that answers as told, then that it is done."""

    def __init__(self, answers):
        self.left, self.done = list(answers), threading.Event()

    def transact(self, _statements):
        if not self.left:
            self.done.set()
            return TransactionAnswer(Outcome.ACKNOWLEDGED)
        return self.left.pop(0)

    def close(self):
        pass


def test_a_client_of_an_endpoint_waits_longer_after_each_failure_in_a_row(monkeypatch):
    """Until an answer comes; without an endpoint the wait is always the same."""
    pauses, lines = [], []
    monkeypatch.setattr(clock, "pause", lambda seconds, unless=None: pauses.append(seconds))
    failed = [TransactionAnswer(Outcome.FAILED, 2003)] * 7
    client = Answers([*failed, TransactionAnswer(Outcome.ACKNOWLEDGED, server="2@b"), failed[0]])
    with Ledger({ENDPOINT: 1}, back_off=True).writing(lambda _: client, lines.append):
        assert client.done.wait(5)

    assert pauses[:9] == [*BACKOFF_SECONDS, BACKOFF_SECONDS[-1], BACKOFF_SECONDS[-1], BACKOFF_SECONDS[0]]
    assert [one.server for one in parse(lines).attempts[:8]] == [*[""] * 7, "2@b"]


class Connection:
    """What PyMySQL gives for a connection through a proxy."""

    def __init__(self, server):
        self.server, self.seconds, self.lost = server, None, False

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def execute(self, _query):
        if self.lost:
            raise pymysql.err.OperationalError(2013, "lost")

    def fetchone(self):
        return self.server

    def query(self, _statement):
        if self.lost:
            raise pymysql.err.OperationalError(2013, "lost")
        return 1

    def answer_within(self, seconds):
        self.seconds = seconds

    def close(self):
        pass


def client_of(*connections):
    """Return a client that gets these connections in turn, and the list of what each has told of its server."""
    left, met = list(connections), []

    class Server:
        def connect(self, **_options):
            return left.pop(0)

    return ApplicationClient(Server, met.append), met


def test_each_answer_tells_the_server_of_its_connection():
    """Also one that was lost: it may have been committed there."""
    first, second = Connection(("1@a", "10.0.0.9")), Connection(("2@b", "10.0.0.9"))
    client, met = client_of(first, second)
    answers = [client.transact(["INSERT"])]
    first.lost = True
    answers += [client.transact(["INSERT"]) for _ in range(2)]

    assert [(one.outcome, one.server) for one in answers] == [
        (Outcome.ACKNOWLEDGED, "1@a"),
        (Outcome.UNKNOWN, "1@a"),
        (Outcome.ACKNOWLEDGED, "2@b"),
    ]
    assert met == [AnsweredBy("1@a", "10.0.0.9"), AnsweredBy("2@b", "10.0.0.9")]


def test_a_connection_that_is_lost_before_its_first_statement_has_sent_none():
    """A proxy accepts before it has a server: the statement failed, and nothing is unknown."""
    lost = Connection(("1@a", "10.0.0.9"))
    lost.lost = True
    client, _ = client_of(lost)

    assert client.transact(["INSERT"]).outcome is Outcome.FAILED


# --- its verdict ------------------------------------------------------------------------------------------------------

SERVERS = {"1@a": "node1", "2@b": "node2"}


def at_endpoint(history, servers):
    return [
        msgspec.structs.replace(one, node=ENDPOINT, server=server) for one, server in zip(history, servers, strict=True)
    ]


def test_figures_of_nodes_are_those_of_the_servers_that_answered():
    """What no server got stays with the endpoint."""
    servers = ["1@a"] * (len(HISTORY) - 2) + ["2@b", ""]
    met = ThroughEndpoint("haproxy (inter 500)", SERVERS)
    result = judge(evidence(endpoint=met), at_endpoint(HISTORY, servers))
    counted = {name: result.figures[name] for name in result.figures if name.startswith("acknowledged")}
    own = [one.acknowledged for one in HISTORY]

    assert counted["acknowledged.node1"] == sum(own[:-2])
    assert set(counted) == {"acknowledged", "acknowledged.node1", "acknowledged.node2", "acknowledged.endpoint"}
    assert "haproxy (inter 500)" in text(summed_up(result))
    assert result.exit_code == judge(evidence(), HISTORY).exit_code


def test_a_client_that_reached_a_server_past_the_endpoint_makes_everything_unknown():
    """Its figures are not those of the endpoint."""
    met = ThroughEndpoint("haproxy", SERVERS, ["a client reached 1@a from 10.0.0.1, past the endpoint"])
    result = judge(evidence(endpoint=met), at_endpoint(HISTORY, ["1@a"] * len(HISTORY)))

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert "past the endpoint" in result.judgements[0].reason


def test_a_ledger_line_has_a_server_only_behind_an_endpoint():
    """Ledgers of drills without one are as before."""
    assert b"server" not in encode(StatementEnd(1, 0.5, Outcome.ACKNOWLEDGED))
