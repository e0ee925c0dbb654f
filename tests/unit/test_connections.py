"""Does a program learn how to connect, from `lab env` and from --json, and does no record hold the password?"""

import json
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from replication_lab import experiments, replication
from replication_lab.cli import cli
from replication_lab.lab import status
from replication_lab.lab.connections import connections, of_endpoint, variables
from replication_lab.model.core.errors import LabError
from replication_lab.replication.kind import Nodes
from replication_lab.world import catalogue
from replication_lab.world.docker import project

from tests.fakes.lab import FakeLab
from tests.fakes.parts import LabOfNames


class Labelled(LabOfNames):
    """A lab of a topology whose nodes publish ports, but for those that are stopped."""

    endpoint = None

    def __init__(self, topology, password, stopped=()):
        self.topology, self.password, self.stopped = catalogue.topology(topology), password, stopped

    def application(self, _node):
        return "lab", self.password

    def database(self, _node):
        return "lab"

    def bound(self, node, port):
        if node in self.stopped:
            raise LabError(f"{node} does not run", "its port")
        return "127.0.0.1", 40000 + [each.name for each in self.topology.nodes].index(node)


@pytest.fixture
def lab(monkeypatch):
    """Make a lab, the only one that is up; clients write at its first node."""

    def make(topology="semisync", password="s3cret", stopped=()):
        found = Labelled(topology, password, stopped)
        monkeypatch.setattr(project, "find", lambda _name=None: found)
        monkeypatch.setattr(replication, "of", Nodes)
        return found

    return make


def typed(*arguments):
    said = CliRunner().invoke(cli, arguments, prog_name="lab", catch_exceptions=False)
    return said.output


def test_each_running_node_has_its_address_and_its_dsn(lab):
    """A stopped node has no port, so it is left out."""
    found = connections(lab(stopped=["replica"]))

    assert [(each.node, each.host, each.port, each.user) for each in found] == [("source", "127.0.0.1", 40000, "lab")]
    assert found[0].dsn == "mysql://lab:s3cret@127.0.0.1:40000/lab"


def test_a_password_with_any_character_survives_the_shell_and_the_dsn(lab):
    """What the shell has after `eval` is what --json has."""
    lab(password="a b'$x@/:")
    wanted = json.loads(typed("env", "--json"))
    shown = subprocess.run(
        ["sh", "-c", f"{typed('env')}\nenv"], capture_output=True, text=True, check=True, env={}
    ).stdout.splitlines()

    assert {f"{name}={value}" for name, value in wanted.items()} <= set(shown)
    assert wanted["MYSQL_PWD"] == "a b'$x@/:"
    assert wanted["LAB_REPLICA_DSN"] == "mysql://lab:a%20b%27%24x%40%2F%3A@127.0.0.1:40001/lab"


def test_the_clients_variables_lead_to_the_node_that_takes_writes(lab):
    """None of them where it is stopped: they would lead to another lab's."""
    found = variables(lab())

    assert (found["MYSQL_HOST"], found["MYSQL_TCP_PORT"], found["LAB_NAME"]) == ("127.0.0.1", "40000", "lab-fake")
    assert found["LAB_DSN"] == found["LAB_SOURCE_DSN"] != found["LAB_REPLICA_DSN"]
    alone = variables(lab(stopped=["source"]))
    assert "MYSQL_HOST" not in alone and "LAB_REPLICA_PORT" in alone


def test_a_lab_whose_nodes_are_all_stopped_has_no_variables(lab, refused):
    """It is an error, not an empty answer that `eval` takes."""
    assert "no node of lab-fake runs" in refused(variables, lab(stopped=["source", "replica"])).found


@pytest.mark.parametrize("topology", catalogue.topologies())
def test_no_variable_is_one_that_compose_takes(lab, topology):
    """The next `lab up` would take this lab's ports or password."""
    taken = {word for path in catalogue.COMPOSE.rglob("*.yaml") for word in words_of(path.read_text())}

    assert "LAB_PORT_SOURCE" in taken and not taken & set(variables(lab(topology)))


def words_of(text: str) -> set[str]:
    """Return the variables that a Compose file takes from the environment."""
    return {part.split("}")[0].split(":")[0].split("-")[0] for part in text.split("${")[1:]}


def test_the_connections_are_part_of_the_status(lab, monkeypatch):
    """`lab up --json` and `lab status --json` print this view."""
    found = lab()
    monkeypatch.setattr(found, "containers", {}, raising=False)
    monkeypatch.setattr(found, "state", lambda: None, raising=False)
    monkeypatch.setattr(found, "engine", "mariadb", raising=False)
    monkeypatch.setattr(status, "_link", lambda lab, *link: None)
    monkeypatch.setattr(status, "_unless_silent", lambda _ask, silent: silent)

    assert [each.dsn for each in status.view(found).connections] == [
        "mysql://lab:s3cret@127.0.0.1:40000/lab",
        "mysql://lab:s3cret@127.0.0.1:40001/lab",
    ]


def test_no_file_of_a_run_holds_the_password(ran, runs, brief, undrawn, monkeypatch):
    """Neither the record nor anything beside it."""
    monkeypatch.setattr(FakeLab, "passwords", dict.fromkeys(FakeLab.passwords, "s3cret-of-the-lab"))
    short = replace(experiments.load("semisync_wan"), presets={"quick": brief, "full": brief})
    ran(short)
    files = [path for path in runs.rglob("*") if path.is_file()]

    assert files and not [path for path in files if b"s3cret-of-the-lab" in path.read_bytes()]


def test_a_lab_with_an_endpoint_tells_its_address_to_clients():
    """As variables beside those of the nodes, for writing and for reading."""
    lab = Labelled("async", "secret")
    ports = {3306: ("127.0.0.1", 11), 3307: ("127.0.0.1", 12)}
    lab.endpoint = SimpleNamespace(kind=catalogue.endpoint("haproxy"), service=SimpleNamespace(bound=ports.get))
    found = {each.node: each.port for each in of_endpoint(lab)}

    assert found == {"endpoint": 11, "endpoint-reads": 12}
