"""Nodes of a Galera cluster that are bootstrapped, as two at once."""

import pytest
from replication_lab.faults.writers import Bootstrap
from replication_lab.model.core.errors import LabError
from replication_lab.runner import drill_set
from replication_lab.witnesses import servers
from replication_lab.world import catalogue, clock

from tests.fakes.machine import doubts
from tests.fakes.parts import LabOfServers
from tests.unit import test_lost_majority

BLOCKED = test_lost_majority.BLOCKED
SERVES = test_lost_majority.STATUS


class Lab(LabOfServers):
    engine, is_attached = "mariadb", False


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not condition():
            raise LabError(f"timed out waiting for {what}", "it")

    monkeypatch.setattr(clock, "wait_until", wait_until)
    monkeypatch.setattr(servers, "_held", {})


class GaleraServer(test_lost_majority.Server):
    """A node without a majority, which a bootstrap makes Primary unless it ignores that."""

    ignores = False

    def __init__(self, name):
        super().__init__(name, **BLOCKED)
        self.told = []

    def execute(self, *statements):
        self.told += statements
        if not self.ignores:
            self.status = {**SERVES, "incoming_addresses": self.name}


def test_each_node_without_a_majority_goes_on_alone():
    """The statement is the one that the lab tells an operator."""
    lab = Lab("galera", GaleraServer)
    fault = Bootstrap(lab, ["node1", "node2"])
    fault.inject()
    fault.recover()

    assert doubts([*fault.verify(), *fault.verify_recovered()]) == []
    assert [server.told for server in lab.servers.values()] == [
        ["SET GLOBAL wsrep_provider_pc_bootstrap = ON"],
        ["SET GLOBAL wsrep_provider_pc_bootstrap = ON"],
        [],
    ]


def test_a_bootstrap_that_does_nothing_and_one_that_is_not_needed_are_errors(refused):
    """A node with a majority is not bootstrapped."""
    lab = Lab("galera", GaleraServer)
    lab.servers["node1"].ignores = True
    assert "node1 to continue alone" in refused(Bootstrap(lab, ["node1"]).inject).found

    lab.servers["node2"].status = SERVES
    assert "node2 to have no majority" in refused(Bootstrap(lab, ["node2"]).inject).found


def test_a_bootstrapped_node_that_stops_serving_is_noticed():
    """Also between the readings."""
    lab = Lab("galera", GaleraServer)
    fault = Bootstrap(lab, ["node1"])
    fault.inject()
    lab.servers["node1"].status = {**SERVES, **BLOCKED}

    assert "node1 was non-Primary" in doubts(fault.verify())[0]
    assert servers._contrary(lab.name, "node1", lab.servers["node1"]) == ["node1 was non-Primary"]


def test_replicas_are_not_bootstrapped(refused):
    """Only a cluster has majorities."""
    text = "about: a\nclients: {source: 1}\nsteps: [{fault: bootstrap, targets: [replica], seconds: 1}]\npromises: []\n"

    assert "bootstrap in async" in refused(drill_set.parse, "b", catalogue.topology("async"), text).found
