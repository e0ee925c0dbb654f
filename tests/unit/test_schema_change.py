"""A change of the clients' table: refused where it cannot be, expected on every node, and noticed where it is not."""

from contextlib import closing, suppress

import pytest
from replication_lab.faults import schema_change
from replication_lab.faults.schema_change import SchemaChange
from replication_lab.model.core.errors import LabError
from replication_lab.runner import drill_set
from replication_lab.witnesses import servers
from replication_lab.workloads import ledger
from replication_lab.world import catalogue, clock

from tests.fakes.machine import doubts
from tests.fakes.parts import LabOfServers

FILE = """
about: The table is changed.
clients: {source: 1}
steps: [{fault: schema-change, by: copy, targets: [source], seconds: 1}]
promises: [nothing-lost]
"""
BEFORE, AFTER = "CREATE TABLE `ledger` (`id`)", "CREATE TABLE `ledger` (`id`, `note`)"


class Server:
    """A server with the table; each statement is noted, and a change reaches the servers in `follows` at once."""

    def __init__(self, name):
        self.name, self.table, self.ignores, self.follows, self.told = name, BEFORE, False, [], []
        self.busy = False

    def answering_within(self, _seconds):
        return self

    def close(self):
        """Do nothing: there is no connection."""

    def rows(self, _statement):
        return [{"Create Table": f"{self.table} AUTO_INCREMENT={len(self.told) + 7}"}]

    def execute(self, *statements):
        self.told += statements
        if self.busy:
            self.busy = False
            raise LabError("lock wait timeout exceeded", "the change")
        if not self.ignores:
            for server in (self, *self.follows):
                server.table = AFTER


class Lab(LabOfServers):
    engine, is_attached = "mariadb", False


@pytest.fixture
def lab_of(monkeypatch):
    """Return what makes a lab of a topology, whose first node's changes reach the others unless `alone`."""

    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not condition():
            raise LabError(f"timed out waiting for {what}", "it")

    def made(topology, alone=False):
        lab = Lab(topology, Server)
        first, *others = lab.servers.values()
        first.follows = [] if alone else others
        return lab

    monkeypatch.setattr(clock, "wait_until", wait_until)
    monkeypatch.setattr(servers, "_held", {})
    return made


@pytest.mark.parametrize(
    ("by", "end"), [("instant", ", ALGORITHM=INSTANT"), ("inplace", ", ALGORITHM=INPLACE, LOCK=NONE")]
)
def test_the_change_is_made_on_one_node_and_expected_on_each(lab_of, by, end):
    """The number of the next row is no part of the definition."""
    lab = lab_of("async")
    fault = SchemaChange(lab, ["source"], by, "ADD COLUMN note INT")
    fault.inject()

    assert lab.servers["source"].told == [f"ALTER TABLE lab.ledger ADD COLUMN note INT{end}"]
    assert lab.servers["replica"].told == []
    assert [proof.what for proof in fault.verify()] == [
        "source: the table has its new definition",
        "replica: the table has its new definition",
    ]
    fault.recover()
    assert doubts([*fault.verify(), *fault.verify_recovered()]) == []


def test_a_step_that_changes_nothing_after_one_that_did_is_noticed(lab_of):
    """All faults of a drill are made before its load."""
    lab = lab_of("async")
    first, second = (SchemaChange(lab, ["source"], "copy") for _ in range(2))
    first.inject()
    lab.servers["source"].ignores = True

    with pytest.raises(LabError, match="timed out waiting for source to have the change"):
        second.inject()


def test_a_tool_runs_beside_the_nodes_and_is_removed(lab_of, monkeypatch):
    """Its password is in its environment only."""
    lab, ran, removed = lab_of("async"), [], []
    monkeypatch.setattr(schema_change.images, "ensure", lambda _: None)
    monkeypatch.setattr(schema_change.site_images, "bring", lambda *_: None)
    lab.containers = {}

    def run_beside(like, name, image):
        ran.append((like, name, image))
        lab.containers[name] = image

    def remove_beside(name):
        del lab.containers[name]
        removed.append(name)

    lab.run_beside, lab.remove_beside = run_beside, remove_beside
    lab.administrator = lambda _: ("root", "secret")

    def run(_service, *command, environment):
        assert "secret" not in " ".join(command) and environment["MYSQL_PWD"] == "secret"
        lab.servers["source"].execute()

    lab.run = run
    with closing(SchemaChange(lab, ["source"], "pt-osc")) as fault:
        fault.inject()
        assert doubts(fault.verify()) == []

    assert ran == [("source", "tools", "replication-lab/tools")]
    assert removed == ["tools"]


def test_with_rsu_each_node_makes_the_change_itself(lab_of):
    """The cluster does not replicate it."""
    lab = lab_of("galera", alone=True)
    fault = SchemaChange(lab, ["node1"], "rsu")
    fault.inject()

    assert doubts(fault.verify()) == []
    assert {tuple(server.told) for server in lab.servers.values()} == {
        (
            "SET SESSION wsrep_OSU_method = 'RSU'",
            "SET SESSION lock_wait_timeout = 1",
            "ALTER TABLE lab.ledger ADD COLUMN note INT NOT NULL DEFAULT 0",
        )
    }


@pytest.mark.parametrize(("by", "tried"), [("rsu", 2), ("toi", 1)])
def test_only_a_change_that_may_wait_for_a_client_for_ever_is_tried_again(lab_of, by, tried):
    """With RSU the commit of a client on the node waits for the change, and the change for it."""
    lab = lab_of("galera", alone=by == "rsu")
    lab.servers["node1"].busy = True
    with suppress(LabError):
        SchemaChange(lab, ["node1"], by).inject()

    assert len([each for each in lab.servers["node1"].told if each.startswith("ALTER")]) == tried
    assert (lab.servers["node1"].table == AFTER) is (tried == 2)


def test_a_change_that_did_not_happen_is_noticed(lab_of, refused):
    """Sabotage: the server says yes and does nothing."""
    lab = lab_of("async")
    lab.servers["source"].ignores = True

    assert "to have the change" in refused(SchemaChange(lab, ["source"], "copy").inject).found


def test_a_node_that_has_not_the_change_is_noticed(lab_of):
    """Whether it kept the old table or has another one; also between the readings."""
    lab = lab_of("async")
    fault = SchemaChange(lab, ["source"], "copy")
    fault.inject()
    replica = lab.servers["replica"]

    for table, said in (
        (BEFORE, "the table was not changed on replica"),
        ("CREATE TABLE `ledger` (`x`)", "the table on replica differed from that on source"),
    ):
        replica.table = table
        assert said in doubts(fault.verify())[0]
        assert servers._contrary(lab.name, "replica", replica) == [said]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("by: copy, ", "", "schema-change with the way ''"),
        ("by: copy", "by: hand", "schema-change with the way 'hand'"),
        ("by: copy", "by: copy, alter: ' '", "schema-change with the change ' '"),
    ],
)
def test_a_way_that_there_is_not_is_refused(refused, old, new, found):
    """Before anything starts."""
    text = FILE.replace(old, new)

    assert found in refused(drill_set.parse, "schema-change", catalogue.topology("async"), text).found


def test_the_table_is_that_of_the_clients():
    """The faults do not know the loads."""
    assert schema_change.TABLE == ledger.TABLE


def test_a_way_of_galera_is_refused_elsewhere(lab_of, refused):
    """MariaDB takes the variable also without a cluster, and ignores it."""
    assert "schema-change by rsu in async" in refused(SchemaChange, lab_of("async"), ["source"], "rsu").found
