"""Do the witnesses of variables and disks tell what others changed from what the lab changed itself?"""

import time
from types import SimpleNamespace

import pytest
from replication_lab.witnesses.acts import PLUGIN, disk_requests
from replication_lab.witnesses.servers import Member, changed_by_others
from replication_lab.world import clock, requests_made
from replication_lab.world.requests_made import SENDER

# --- variables --------------------------------------------------------------------------------------------------------


class FakeServer:
    """A server with one variable, which has been up for some seconds."""

    name, address, value, up = "source", ("of this test", 1), "0", 60

    def __init__(self):
        requests_made.forget_setting(self.address, "sync_binlog")

    def set_global(self, value):
        self.value = value
        requests_made.note_setting(self.address, "sync_binlog", value)

    def global_values(self, *names):
        return dict.fromkeys(names, self.value)

    def rows(self, _statement):
        return [{"Value": str(self.up)}]


def test_a_variable_that_others_change_is_told_until_it_has_the_labs_value():
    """Whatever set it in this process: an experiment, a question or a drill."""
    server = FakeServer()
    assert changed_by_others(server) == []
    server.set_global("ON")
    server.value = "1"
    assert changed_by_others(server) == []
    server.value = "2"
    assert changed_by_others(server) == ["sync_binlog was 2 on source, not ON"]
    server.set_global("2")
    assert changed_by_others(server) == []


def test_one_of_durability_that_the_lab_has_not_set_is_compared_with_what_it_was():
    """What the lab sets, or is setting, is its own."""
    server, durable = FakeServer(), Member(lambda server: {"sync_binlog": server.value})
    requests_made._settings.clear()
    assert durable(server) == []
    server.value = "1"
    assert durable(server) == ["sync_binlog was 1 on source, after 0"]
    requests_made.forget_setting(server.address, "sync_binlog")
    server.value = "7"
    assert durable(server) == []


def test_a_server_that_was_started_again_has_its_start_values():
    """As after a fault: what was set before is lost, and no interference."""
    server = FakeServer()
    server.set_global("1")
    server.value, server.up = "7", 0
    assert changed_by_others(server) == []


def test_a_variable_that_the_lab_sets_during_a_reading_is_not_told():
    """The reading may have come before or after it."""
    server = FakeServer()
    server.set_global("1")

    def during(*names):
        server.set_global("7")
        return dict.fromkeys(names, "3")

    server.global_values = during
    assert changed_by_others(server) == []


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk_log():
    """Return a lab with one emulated disk and a server, and the disk's log, which a test changes."""
    said = [(1.0, "nbdkit: ready"), (2.0, "spindle: curl asked for fail")]
    disk = SimpleNamespace(id="f00d", attrs={"Path": "nbdkit", "Args": ["--foreground", PLUGIN]})
    server = SimpleNamespace(attrs={"Path": "mysqld", "Args": None})
    lab = SimpleNamespace(
        containers={"node1-disk1": disk, "node1": server},
        service=lambda _: SimpleNamespace(container=disk, dated_logs=lambda: list(said)),
        another=lambda: None,
    )
    return lab, said


def test_changes_of_a_disk_by_others_are_told_with_their_time_and_the_labs_own_are_not(disk_log):
    """The disk's log names who sent each request; what it says of its earlier life is no change."""
    lab, said = disk_log
    witness, zero = disk_requests(lab), clock.timer()
    said += [
        (time.time() - 1.0, f"spindle: {SENDER} asked for set write_us=625"),
        (time.time() - 0.5, "spindle: another program asked for set write_cache=off"),
    ]
    (found,) = witness.observation(zero).contrary

    assert found.what == "another program asked node1-disk1 for set write_cache=off"
    assert found.at == pytest.approx(-0.5, abs=0.3)


def test_a_disk_whose_log_lost_its_first_lines_proves_nothing(disk_log):
    """An engine that keeps only the newest lines may have removed the one of a change."""
    lab, said = disk_log
    witness, zero = disk_requests(lab), clock.timer()
    del said[0]
    (found,) = witness.observation(zero).contrary

    assert found.what == "not known what node1-disk1 logged: the log of node1-disk1 had lost its first lines"
