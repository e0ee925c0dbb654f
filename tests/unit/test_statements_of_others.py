"""Are statements of others told from the counters and sessions of a server, but for those of the lab's own?"""

from types import SimpleNamespace

import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.witnesses import statements_of_others
from replication_lab.witnesses.sampled import Following
from replication_lab.witnesses.statements_of_others import (
    CONTROLS,
    DEFINERS,
    LOCKS,
    NO_SUCH_TABLE,
    TABLES,
    TRANSACTIONS,
)
from replication_lab.world import clock, requests_made
from replication_lab.world.requests_made import CONTROLS_REPLICATION, DEFINES


class FakeServer:
    """A server whose counters and sessions a test sets; `open_` are the numbers of those with a transaction."""

    name, address = "node1", ("of this test", 3)
    home = address

    def __init__(self):
        self.now = dict.fromkeys((f"Com_{name}" for name in (*TABLES, *LOCKS, *CONTROLS)), 7)
        self.now |= {"Uptime": 100, "Uptime_since_flush_status": 40}
        self.sessions, self.open_, self.session, self.definers = [], [], 3, []
        self.variables = {"sync_binlog": "1", "read_only": "OFF"}

    def counters(self, *names):
        return {name: value for name, value in self.now.items() if name in names}

    def rows(self, sql):
        """Raise the error of a server without performance_schema.global_variables."""
        if "performance_schema" in sql:
            raise LabError("no such table", "one") from pymysql.err.ProgrammingError(NO_SUCH_TABLE, "")
        if "GLOBAL_VARIABLES" in sql:
            rows = [{"name": name, "value": value} for name, value in self.variables.items()]
            return [{"digest": str(rows), "session": self.session}] if "CRC32" in sql else rows
        if sql == DEFINERS:
            return [{"DEFINER": each} for each in self.definers]
        if not sql.startswith(TRANSACTIONS.partition("{")[0]):
            return self.sessions
        return [{"ID": each} for each in self.open_ if str(each) in sql]

    def seen_by(self, reading, **changes):
        self.now |= changes
        return reading(self)


@pytest.fixture(autouse=True)
def nothing_requested():
    requests_made._made.clear()


@pytest.fixture
def readings(monkeypatch):
    """Return the readings of a lab of one server by its node."""
    monkeypatch.setattr(statements_of_others, "Sampled", lambda _what, _lab, found, every: found)

    def of(manager=None, replication=""):
        topology = SimpleNamespace(nodes=[SimpleNamespace(name="node1")], replication=replication)
        lab = SimpleNamespace(topology=topology, manager=manager, clients_are_beside=False)
        return statements_of_others.statements_of_others(lab)

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


@pytest.mark.parametrize("name", [*LOCKS, *CONTROLS])
def test_a_lock_or_a_stop_of_replication_is_told_where_no_manager_does_so_by_itself(reading, readings, name):
    """A manager locks tables and leads replicas elsewhere."""
    told = [f"node1 counted 1 {name.replace('_', ' ')}"]
    assert reading(**{f"Com_{name}": 8}) == told

    managed, server = readings(manager="keepalived")["node1"], FakeServer()
    assert server.seen_by(managed) == server.seen_by(managed, **{f"Com_{name}": 8}) == []


def test_a_stop_of_replication_by_the_lab_explains_no_other_statement(reading):
    """Each kind of statement has requests of its own."""
    with requests_made.noted(CONTROLS_REPLICATION, "node1"):
        assert reading(Com_stop_slave=8, Com_flush=8, Com_alter_table=8) == [
            "node1 counted 1 alter table",
            "node1 counted 1 flush",
        ]


def test_a_session_of_others_that_three_readings_in_a_row_find_at_work_is_told(readings):
    """One long statement or short ones one after the other; fewer readings may find a page that looks now and then."""
    server, reading = FakeServer(), readings()["node1"]

    def seen(*statements):
        server.sessions = [{"ID": 5, "HOST": "10.1.0.9:4711", "COMMAND": "Query", "INFO": each} for each in statements]
        return server.seen_by(reading)

    assert seen("SELECT 1") == seen("SELECT 2") == seen() == seen("SELECT 3") == seen("SELECT 4") == []
    assert seen("SELECT 5") == ["a session of others, number 5 from 10.1.0.9, ran `SELECT 5` on node1"]
    assert seen("SELECT 6") == ["a session of others, number 5 from 10.1.0.9, ran `SELECT 6` on node1"]


def test_a_transaction_of_others_that_stays_open_is_told(readings):
    """Its session does nothing."""
    server, reading = FakeServer(), readings()["node1"]
    server.sessions, server.open_ = [{"ID": 5, "HOST": "10.1.0.9:4711", "COMMAND": "Sleep", "INFO": None}], [5]
    assert server.seen_by(reading) == []
    assert server.seen_by(reading) == ["a session of others, number 5 from 10.1.0.9, kept a transaction open on node1"]


@pytest.mark.parametrize(
    ("definers", "host", "is_told"),
    [
        (["root@localhost"], "localhost:4711", False),
        (["root@%", "lab@%"], "%:4711", False),
        (["root@localhost"], "localhost", True),
        (["root@localhost"], "172.18.0.1:4711", True),
        (["lab@%"], "localhost:4711", True),
    ],
)
def test_a_client_in_a_trigger_that_root_defined_is_no_session_of_others(readings, definers, host, is_told):
    """The server lists it as root's; a session of root's by the socket, or from elsewhere, is told."""
    server, reading = FakeServer(), readings()["node1"]
    server.definers, server.open_ = definers, [5]
    server.sessions = [{"ID": 5, "HOST": host, "COMMAND": "Query", "INFO": "UPDATE sold SET number = number + 1"}]

    found = [server.seen_by(reading) for _ in range(3)]

    assert bool(found[1]) is bool(found[2]) is is_told


def test_sessions_that_this_process_opened_are_its_own(readings, monkeypatch):
    """The lab's own waits last for seconds."""
    monkeypatch.setattr(requests_made, "_sessions", {(FakeServer.home, 5): clock.timer()})
    server, reading = FakeServer(), readings()["node1"]
    server.sessions = [{"ID": 5, "HOST": "10.1.0.9:4711", "COMMAND": "Query", "INFO": "SELECT SLEEP(9)"}]
    assert server.seen_by(reading) == server.seen_by(reading) == server.seen_by(reading) == []


def test_a_server_that_was_started_again_gives_the_number_of_an_own_session_to_another_one(readings, monkeypatch):
    """It counts its sessions anew."""
    monkeypatch.setattr(requests_made, "_sessions", {(FakeServer.home, 5): clock.timer() - 30})
    server, reading = FakeServer(), readings()["node1"]
    server.sessions, restarted = (
        [{"ID": 5, "HOST": "10.1.0.9:4711", "COMMAND": "Query", "INFO": "SELECT 1"}],
        {"Uptime": 4},
    )
    assert server.seen_by(reading) == server.seen_by(reading) == server.seen_by(reading) == []

    assert server.seen_by(reading, **restarted, Uptime_since_flush_status=4) == server.seen_by(reading) == []
    assert server.seen_by(reading) == ["a session of others, number 5 from 10.1.0.9, ran `SELECT 1` on node1"]


def test_a_server_that_answers_late_was_not_started_again(reading, monkeypatch):
    """What it counted meanwhile is told."""
    now, counters = [clock.timer()], FakeServer.counters
    monkeypatch.setattr(clock, "timer", lambda: now[0])

    def late(server, *names):
        now[0] += 5
        return counters(server, *names)

    monkeypatch.setattr(FakeServer, "counters", late)

    assert reading(Com_flush=8) == ["node1 counted 1 flush"]


@pytest.mark.parametrize(
    "statement", ["SHOW REPLICA STATUS", "SELECT VERSION()", "SELECT member_state, 1", "START GROUP_REPLICATION"]
)
def test_what_a_container_itself_asks_is_no_doubt_if_it_hangs(readings, statement):
    """A health check asks for the state of a server that does not answer, and a member waits for its group."""
    server, reading = FakeServer(), readings()["node1"]
    server.sessions = [{"ID": 5, "HOST": "10.1.0.9:4711", "COMMAND": "Query", "INFO": statement}]

    assert [server.seen_by(reading) for _ in range(4)] == [[], [], [], []]


def test_a_new_copy_of_the_tables_excuses_no_change_of_a_cluster():
    """It changes no link and no role."""
    assert not requests_made.OwnRequest(DEFINES, "node1", 0.0).disturbs


def test_a_server_that_was_started_again_counts_anew(reading):
    """Its end is another witness's concern."""
    # An upgrade changes the server's own tables before it answers.
    assert reading(Uptime=20, Uptime_since_flush_status=20, Com_alter_table=242) == []
    assert reading(Com_alter_table=243) == ["node1 counted 1 alter table"]


def test_a_member_of_a_group_that_was_started_again_repeats_for_a_minute_what_it_had_executed(readings, monkeypatch):
    """It reads its relay log once more; when the lab is observed first, nothing is repeated."""
    server, found, now = FakeServer(), readings(replication="group")["node1"], [clock.timer()]
    monkeypatch.setattr(clock, "timer", lambda: now[0])

    def seen(drops, uptime, later):
        now[0] += later
        return server.seen_by(found, Com_drop_table=drops, Uptime=uptime, Uptime_since_flush_status=uptime)

    assert seen(7, 5, 0) == [] and seen(8, 5, 0) == ["node1 counted 1 drop table"]
    assert seen(0, 4, 9) == seen(1, 6, 2) == seen(1, 64, 58) == []
    assert seen(2, 65, 1) == ["node1 counted 1 drop table"]


def test_counters_that_were_flushed_tell_nothing(reading):
    """As many statements may have been counted before as were taken off."""
    assert reading(Uptime=160, Uptime_since_flush_status=100) == []
    assert reading(Uptime=161, Uptime_since_flush_status=0) == ["node1 flushed its counters"]
    assert reading(Uptime=162, Uptime_since_flush_status=1) == []


@pytest.mark.parametrize("noted", [DEFINES, CONTROLS_REPLICATION, "update"])
def test_a_variable_that_others_set_is_told_once_whatever_else_the_lab_does(readings, noted):
    """No other request of the lab explains it."""
    server, reading = FakeServer(), readings()["node1"]
    assert server.seen_by(reading) == []
    server.variables["sync_binlog"] = "0"
    with requests_made.noted(noted, "node1"):
        assert server.seen_by(reading) == ["sync_binlog was 0 on node1, after 1"]
    assert server.seen_by(reading) == []


def test_a_server_that_has_ended_has_lost_what_was_set(readings):
    """Its new sessions have other numbers."""
    server, reading = FakeServer(), readings()["node1"]
    assert server.seen_by(reading) == []
    server.variables["sync_binlog"], server.session = "0", 4
    assert server.seen_by(reading) == []


def test_a_variable_that_this_process_has_set_is_its_own(readings, monkeypatch):
    """Another witness compares it with the value that was set."""
    monkeypatch.setattr(requests_made, "_settings", {(FakeServer.address, "sync_binlog"): None})
    server, reading = FakeServer(), readings()["node1"]
    assert server.seen_by(reading) == []
    server.variables |= {"sync_binlog": "0", "read_only": "ON"}
    assert server.seen_by(reading) == ["read_only was ON on node1, after OFF"]


def test_the_other_name_of_a_variable_that_this_process_has_set_is_its_own(readings, monkeypatch):
    """Another variable that changed at the same time has other values, or a name without a common word."""
    monkeypatch.setattr(requests_made, "_settings", {(FakeServer.address, "replica_parallel_workers"): None})
    server, reading = FakeServer(), readings()["node1"]
    server.variables |= {"replica_parallel_workers": "4", "slave_parallel_workers": "4", "threads": "4", "size": "4"}
    assert server.seen_by(reading) == []
    server.variables |= {"replica_parallel_workers": "10", "slave_parallel_workers": "10", "threads": "9", "size": "10"}
    assert server.seen_by(reading) == ["threads was 9 on node1, after 4", "size was 10 on node1, after 4"]


@pytest.mark.parametrize(
    ("own", "with_it", "value"),
    [
        ("expire_logs_days", "binlog_expire_logs_seconds", "172800"),
        ("wsrep_provider_evs_send_window", "wsrep_provider_options", "evs.send_window = 2"),
    ],
)
def test_what_a_server_changes_with_a_variable_that_this_process_has_set_is_its_own(
    readings, monkeypatch, own, with_it, value
):
    """MariaDB counts the same time in days and in seconds, and lists what it gives Galera's provider."""
    monkeypatch.setattr(requests_made, "_settings", {(FakeServer.address, own): None})
    server, reading = FakeServer(), readings()["node1"]
    server.variables |= {own: "0", with_it: "0", "innodb_io_capacity_max": "5"}
    assert server.seen_by(reading) == []
    server.variables |= {own: "2", with_it: value, "innodb_io_capacity_max": "9"}
    assert server.seen_by(reading) == ["innodb_io_capacity_max was 9 on node1, after 5"]
    server.variables[with_it] = "7"
    assert server.seen_by(reading) == [f"{with_it} was 7 on node1, after {value}"]


def test_what_a_manager_sets_is_expected_only_after_a_fault(readings):
    """It makes a source of a replica, which accepts writes then."""
    server, reading = FakeServer(), readings(manager="keepalived")["node1"]
    assert server.seen_by(reading) == []
    server.variables["read_only"] = "ON"
    (told,) = server.seen_by(reading)
    assert isinstance(told, Following)


def test_the_tables_of_an_attached_project_are_its_applications_to_change(readings, monkeypatch):
    """Some empty a table again and again."""
    monkeypatch.setattr(statements_of_others, "AttachedLab", SimpleNamespace)
    assert readings() == {}
