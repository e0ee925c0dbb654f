"""An upgrade in a drill: what is refused beforehand, and what a server that refuses the data means."""

import msgspec
import pytest
from replication_lab.faults import upgrade
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.lab.server_version import parse_version
from replication_lab.runner import drill_set
from replication_lab.world import catalogue
from replication_lab.world.docker import servers

from tests.unit.synthetic_drill import HISTORY, evidence

ASYNC = catalogue.topology("async")
FILE = """
about: The replica gets another server.
engine: mariadb-10.11
clients: {source: 1}
steps: [{fault: upgrade, to: mariadb, targets: [replica], seconds: 1}]
promises: [nothing-lost]
"""
REFUSAL = "[ERROR] Cannot upgrade from 80033 to 90704."


def drill(text=FILE, topology=ASYNC):
    return drill_set.parse("upgrade", topology, text)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("to: mariadb, ", "", "upgrade with the engine ''"),
        ("to: mariadb,", "to: mariadb-9,", "unknown engine"),
        ("engine: mariadb-10.11", "engine: mariadb-9", "unknown engine"),
    ],
)
def test_an_engine_that_there_is_not_is_refused(refused, old, new, found):
    """Before anything starts: that of the lab, and that of the upgrade."""
    assert found in refused(drill, FILE.replace(old, new)).found


def test_a_galera_cluster_is_upgraded_node_by_node_and_a_group_is_not(refused):
    """MySQL refuses the step to the next series that this lab has."""
    text = FILE.replace("source", "node1").replace("replica]", "node2]").replace("engine: mariadb-10.11\n", "")

    assert "upgrade in group" in refused(drill, text, catalogue.topology("group")).found
    assert drill(text, catalogue.topology("galera")).steps[0].fault == "upgrade"


def test_a_drill_with_an_engine_of_its_own_runs_by_its_name_only():
    """It needs other images; a run of all drills does not."""
    every = {each.name for each in drill_set.known()["async"]}
    together = {each.name for each in drill_set.chosen("async", None, None)}

    assert {"upgrade", "upgrade-mysql"} <= every - together
    assert [each.engine for each in drill_set.chosen("async", "upgrade", None)] == ["mariadb-10.11"]


def test_its_lab_starts_with_that_engine_and_two_engines_need_two_labs(refused):
    """What the command names is for drills that name none."""
    one, other = drill(), msgspec.structs.replace(drill(), engine="mysql-5.7")

    assert drill_set.lab_request("async", "mariadb", [one]).engine == "mariadb-10.11"
    assert "start with different engines" in refused(drill_set.lab_request, "async", "mariadb", [one, other]).found


@pytest.mark.parametrize(("why", "verdict"), [("", Verdict.HOLDS), (REFUSAL, Verdict.REFUTED)])
def test_a_server_that_refuses_the_data_refutes_the_drill_in_its_own_words(why, verdict):
    """Whatever else holds, and although its file has no expectation about that."""
    acted = msgspec.structs.replace(evidence().acted[0], upgrades={"node3": why})

    told = next(one for one in judge(evidence(acted=[acted]), HISTORY).judgements if one.figure == "upgraded.node3")

    assert told.verdict is verdict
    assert why in told.reason


def test_a_doubt_is_no_refusal():
    """What was not proved decides nothing."""
    acted = msgspec.structs.replace(evidence().acted[0], upgrades={"node3": REFUSAL})
    doubted = evidence(acted=[acted], doubts=["the engine was gone"])

    told = next(one for one in judge(doubted, HISTORY).judgements if one.figure == "upgraded.node3")

    assert told.verdict is Verdict.UNKNOWN


def test_a_node_that_got_another_server_keeps_the_name_of_its_host():
    """Its relay logs begin with it. All nodes may run the same server by then."""
    text = servers.overlay(ASYNC, "mariadb", catalogue.compose_file("async"), {"replica": "0123abcd"})
    services = msgspec.yaml.decode(text)["services"]

    assert services["replica"]["hostname"] == "0123abcd"
    assert "hostname" not in services["source"]
    assert servers.overlay(ASYNC, "mariadb", catalogue.compose_file("async")) == ""


def test_a_node_in_the_network_of_its_sidecar_has_no_host_of_its_own():
    """Compose refuses a host name there."""
    text = servers.overlay(catalogue.topology("galera"), "mariadb", catalogue.compose_file("galera"), {"node3": ""})

    assert "hostname" not in msgspec.yaml.decode(text)["services"]["node3"]


class Runs:
    """A lab whose node runs one version, whatever it is told to run."""

    servers_of_nodes = {"replica": "mariadb-10.11"}

    def node(self, _name):
        return self

    def server(self):
        return self

    def version(self):
        return "10.11.5-MariaDB-log"


@pytest.mark.parametrize(("refusals", "ok"), [({}, False), ({"replica": REFUSAL}, True)])
def test_a_server_that_was_silently_not_exchanged_is_no_upgrade(monkeypatch, refusals, ok):
    """The node has to run the version that was asked for; only after a refusal its old one."""
    versions = {"mariadb": "11.8.9-MariaDB", "mariadb-10.11": "10.11.5-MariaDB"}
    monkeypatch.setattr(upgrade.servers, "image_of", lambda text: text)
    monkeypatch.setattr(upgrade.servers, "version_of", lambda image: parse_version(versions[image]))
    built = []
    monkeypatch.setattr(upgrade.images, "ensure", built.extend)
    fault = upgrade.Upgrade(Runs(), ["replica"], "mariadb")
    fault.refusals = refusals

    assert built == ["mariadb"], "its image was built before the node's server was stopped"
    assert [proof.ok for proof in fault.verify()] == [ok]
