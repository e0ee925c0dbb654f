"""Is a lab started with the options that its user gave, are they proved and shown, and is nothing left if refused?"""

import pytest
from msgspec import json
from replication_lab.cli.files import cnf_files
from replication_lab.lab import start_options
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.option_file import Option, StartOptions
from replication_lab.model.question.server_options import options_by_node, server_options
from replication_lab.world import catalogue, lab_files
from replication_lab.world.lab_files import LabState

from tests.fakes.lab import FakeLab
from tests.fakes.world import FakeWorld

NODES = ["source", "replica"]
A = GivenFile("a.cnf", "[mysqld]\ninnodb_read_io_threads = 8\n")


def test_a_nodes_own_value_goes_before_that_of_all():
    """In whichever order they are given."""
    asked = {"replica.sync_binlog": "0", "sync_binlog": "100"}

    assert server_options(asked, []).on(NODES).variables == {
        ("source", "sync_binlog"): "100",
        ("replica", "sync_binlog"): "0",
    }


def test_options_are_those_of_each_node_that_has_any():
    """A file and a variable on one node; the other is not restarted."""
    found = options_by_node({"replica.sync_binlog": "0"}, {"replica.cnf": A}, NODES)

    assert found == {"replica": StartOptions(A, {"sync_binlog": "0"})}


@pytest.mark.parametrize(
    ("variables", "files", "said"),
    [
        ({"far.sync_binlog": "0"}, {}, "unknown node 'far'"),
        ({}, {"far.cnf": A}, "unknown node 'far'"),
        ({"sync binlog": "0"}, {}, "--set sync binlog=0 sets no variable"),
        ({"sync_binlog": "0; x"}, {}, "--set sync_binlog=0; x sets no variable"),
        ({"clients": "4"}, {}, "--set clients=4 sets no variable"),
        ({"innodb_read_io_threads": "4"}, {"source.cnf": A}, "is set by an option and by a.cnf line 2"),
        ({"replica.server_id": "7"}, {}, "server_id cannot be set"),
    ],
)
def test_malformed_options_are_refused_before_anything_starts(variables, files, said, refused):
    """One message."""

    def asked():
        options = options_by_node(variables, files, NODES)
        return LabRequest(catalogue.topology("semisync"), "mariadb", "lab-a", options=options)

    assert said in refused(asked).found


@pytest.mark.parametrize("given", [("replica=",), ("a.cnf", "b.cnf"), ("replica=a.cnf", "replica=b.cnf")])
def test_a_node_has_one_file(given, refused):
    """Given by [NODE=]FILE."""
    assert "--cnf" in refused(cnf_files, given).found


def test_the_state_of_a_lab_holds_its_options():
    """`lab status` reads them there; a state of an earlier version has none."""
    state = LabState("semisync", "mariadb", [], {}, {"source": [Option("sync_binlog", "0", "a.cnf line 2")]})

    assert json.decode(json.encode(state), type=LabState) == state
    assert json.decode(b'{"topology": "a", "engine": "b", "proofs": [], "toxics": {}}', type=LabState).options == {}


def test_options_that_are_no_longer_in_force_are_shown(monkeypatch):
    """The sabotage: another administrator sets one of them."""
    lab = FakeLab(FakeWorld(), catalogue.topology("semisync"), "mariadb")
    wanted = {"source": StartOptions(None, {"sync_binlog": "5"})}
    options = {node: each.options() for node, each in wanted.items()}
    monkeypatch.setattr(lab_files, "saved_state", lambda _lab: LabState("semisync", "mariadb", [], {}, options))
    start_options.start_with(lab, wanted)

    assert [(one.what, one.ok) for one in start_options.current(lab)] == [("source has sync_binlog=5", True)]
    lab.node("source").server().set_global(sync_binlog=7)
    assert [(one.found, one.ok) for one in start_options.current(lab)] == [("7", False)]


def test_servers_in_machines_are_refused_before_they_start(refused):
    """On emulated disks of a machine, and on replicated ones."""
    assert "run in virtual machines" in refused(start_options.refuse_unable, catalogue.topology("drbd"), {}).found
