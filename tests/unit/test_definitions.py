"""Are statements that change tables told from the counters of a server, but for those of the lab's own?"""

from types import SimpleNamespace

import pytest
from replication_lab.witnesses import servers
from replication_lab.world import requests_made
from replication_lab.world.requests_made import DEFINES


class FakeServer:
    """A server whose counters a test sets."""

    name, address, flushes = "node1", ("of this test", 3), "1"

    def __init__(self):
        self.now = dict.fromkeys((f"Com_{name}" for name in servers.COUNTED), 7)
        self.now |= {"Uptime": 100, "Uptime_since_flush_status": 40}

    def counters(self, *names):
        return {name: value for name, value in self.now.items() if name in names}

    def global_values(self, *names):
        return dict.fromkeys(names, self.flushes)

    def seen_by(self, reading, **changes):
        self.now |= changes
        return reading(self)


@pytest.fixture(autouse=True)
def nothing_requested():
    requests_made._made.clear()


@pytest.fixture
def readings(monkeypatch):
    """Return the readings of a lab of one server by its node."""
    monkeypatch.setattr(servers, "Sampled", lambda _what, _lab, found, every: found)

    def of():
        topology = SimpleNamespace(nodes=[SimpleNamespace(name="node1")], replication="")
        return servers.definitions(SimpleNamespace(topology=topology, containers={"node1": SimpleNamespace(id="f00d")}))

    return of


@pytest.fixture
def reading(readings):
    server, found = FakeServer(), readings()["node1"]
    assert server.seen_by(found) == []
    return lambda **changes: server.seen_by(found, **changes)


def test_a_table_that_was_changed_and_changed_back_is_told(reading):
    """Its definition is the same at both readings; the counter is not."""
    assert reading(Com_alter_table=9, Com_truncate=8) == ["node1 counted 2 alter table", "node1 counted 1 truncate"]
    assert reading() == []


def test_what_the_lab_changes_itself_is_its_own(reading):
    """As a change of the schema in a drill, or a replica that gets a new copy."""
    with requests_made.noted(DEFINES, "node1"):
        assert reading(Com_alter_table=8) == []
    with requests_made.noted("kill", "node2"):
        requests_made._made.popleft()
        assert reading(Com_alter_table=9) == ["node1 counted 1 alter table"]


def test_a_new_copy_of_the_tables_excuses_no_change_of_a_cluster():
    """It changes no link and no role."""
    assert not requests_made.OwnRequest(DEFINES, "node1", 0.0).disturbs


def test_a_server_that_was_started_again_counts_anew(reading):
    """Its end is another witness's concern."""
    # An upgrade changes the server's own tables before it answers.
    assert reading(Uptime=20, Uptime_since_flush_status=20, Com_alter_table=242) == []
    assert reading(Com_alter_table=243) == ["node1 counted 1 alter table"]


def test_counters_that_were_flushed_tell_nothing(reading):
    """As many statements may have been counted before as were taken off."""
    assert reading(Uptime=160, Uptime_since_flush_status=100) == []
    assert reading(Uptime=161, Uptime_since_flush_status=0) == ["node1 flushed its counters"]
    assert reading(Uptime=162, Uptime_since_flush_status=1) == []


def test_a_change_of_the_labs_own_tables_excuses_no_other_durability(reading, monkeypatch):
    """The lab changes that by another way, which is remembered."""
    monkeypatch.setattr(FakeServer, "flushes", "0")
    with requests_made.noted(DEFINES, "node1"):
        assert len(reading()) == len(servers.DURABLE)


def test_the_tables_of_an_attached_project_are_its_applications_to_change(readings, monkeypatch):
    """Some empty a table again and again."""
    monkeypatch.setattr(servers, "AttachedLab", SimpleNamespace)
    assert readings() == {}
