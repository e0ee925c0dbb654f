"""What a replica has received and not applied is counted, and no statement makes it lose that."""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.mysql import replica
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Backlog, Replica
from replication_lab.world.mysql.server import Server

from tests.fakes.connection import WORDS, dialled_by, status_row


@pytest.fixture
def dialled(monkeypatch):
    """Make a server whose every connection is one that answers as told; returns (server, connections dialled)."""
    return dialled_by(monkeypatch)


@pytest.mark.parametrize(
    ("dialect", "received", "applied", "missing"),
    [
        ("mariadb", {"Gtid_IO_Pos": "0-1-7"}, "0-1-5", "0-1-6 to 0-1-7"),
        ("mysql", {"Retrieved_Gtid_Set": "a:3-7"}, "a:1-5", "a:6 to a:7"),
        ("mysql-5.6", {"Retrieved_Gtid_Set": "a:3-7"}, "a:1-5", "a:6 to a:7"),
    ],
)
def test_what_was_received_and_not_applied_is_counted_by_gtids(dialect, received, applied, missing, dialled):
    """With the cause, and the statements that let it be applied."""
    words = WORDS[dialect]

    def backlog(**changes):
        row = status_row(dialect, **received, **{dialects()[dialect].columns.received_place: 7}, **changes)
        return Replica(dialled({words.status: [row], "SELECT @@": [{"gtids": applied}]}, dialect)[0]).backlog()

    running, stopped, failed = (
        backlog(),
        backlog(**{words.sql: "No"}),
        backlog(**{words.sql: "No"}, Last_SQL_Error="1032"),
    )
    counted = f"2 transactions received and not applied: {missing}"

    assert str(running) == f"still applying: {counted}" and running.moves
    assert str(stopped) == f"the applier is stopped; {counted}" and not stopped.moves
    assert str(failed) == f"the applier stopped with the error '1032'; {counted}"
    assert stopped.remedy("near") == f'./lab sql near -e "{dialects()[dialect].start_applier}"'


def test_a_replica_that_does_not_use_gtids_is_judged_by_its_positions(dialled):
    """As after the statements that keep MariaDB's relay log: it then reports no GTID of what it receives."""
    places = {"Master_Log_File": "bin.1", "Read_Master_Log_Pos": 9, "Relay_Master_Log_File": "bin.1", "Gtid_IO_Pos": ""}
    behind = status_row("mariadb", **places, Exec_Master_Log_Pos=4, Using_Gtid="No", Slave_SQL_Running="No")
    answers = {"SELECT @@": [{"gtids": "0-1-5"}]}
    left = Replica(dialled({"SHOW": [behind], **answers})[0]).backlog()

    assert str(left) == "the applier is stopped; transactions received and not applied"
    assert left.statements == ("START SLAVE SQL_THREAD",)
    assert Replica(dialled({"SHOW": [{**behind, "Exec_Master_Log_Pos": 9}], **answers})[0]).backlog() is None


def test_a_server_without_gtids_tells_only_that_something_is_not_applied(dialled):
    """By its positions in the source's log."""
    places = {"Master_Log_File": "bin.1", "Read_Master_Log_Pos": 9, "Relay_Master_Log_File": "bin.1"}
    row = status_row("mysql-5.5", **places, Exec_Master_Log_Pos=4, Slave_SQL_Running="No")
    left = Replica(dialled({"SHOW": [row]}, "mysql-5.5")[0]).backlog()
    level = {**row, "Exec_Master_Log_Pos": 9}

    assert str(left) == "the applier is stopped; transactions received and not applied"
    assert Replica(dialled({"SHOW": [level]}, "mysql-5.5")[0]).backlog() is None
    assert Replica(dialled({}, "mysql-5.5")[0]).backlog() is None


def test_mariadbs_relay_log_is_kept_where_both_threads_are_stopped(dialled):
    """A start of either thread would delete it, unless GTIDs are off."""
    stopped = {"Slave_IO_Running": "No", "Slave_SQL_Running": "No"}
    row = status_row("mariadb", Gtid_IO_Pos="0-1-7", Relay_Log_File="relay.2", Relay_Log_Pos=1690, **stopped)
    left = Replica(dialled({"SHOW": [row], "SELECT @@": [{"gtids": "0-1-5"}]})[0]).backlog()

    change, start = left.statements
    assert change == "CHANGE MASTER TO RELAY_LOG_FILE='relay.2', RELAY_LOG_POS=1690, MASTER_USE_GTID=no"
    assert start == "START SLAVE SQL_THREAD"
    # A replica that stays without GTIDs could not say what it has received.
    assert left.remedy("near").endswith('-e "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID=slave_pos; START SLAVE")')


def test_a_part_of_a_transaction_that_56_counts_as_received_is_none(dialled):
    """The connection ended within it; the applier has read all that came."""
    row = status_row("mysql-5.6", Retrieved_Gtid_Set="a:1-6", Slave_SQL_Running_State="Slave has read all relay log; …")
    answers = {"SHOW": [row], "SELECT @@": [{"gtids": "a:1-5"}]}

    assert Replica(dialled(answers, "mysql-5.6")[0]).backlog() is None


def test_gtids_whose_relay_log_is_gone_count_until_they_are_applied(dialled):
    """A server that was started again has an empty relay log."""
    row = status_row("mariadb", Gtid_IO_Pos="0-1-5", Slave_IO_Running="Connecting")
    server, _ = dialled({"SHOW": [row], "SELECT @@": [{"gtids": "0-1-5"}]})

    assert str(Replica(server).backlog("0-1-7")).startswith("the relay log was deleted; 2 transactions received")
    assert not Replica(server).backlog("0-1-7").moves
    assert Replica(server).backlog("0-1-5") is None


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
@pytest.mark.parametrize("act", ["stop_following", "replicate_from"])
def test_a_replica_that_has_not_applied_what_it_received_is_not_touched(act, dialect, dialled, refused):
    """Not even its receiver: MariaDB would delete the relay log when that is started again."""
    words = WORDS[dialect]
    row = status_row(dialect, **{words.sql: "No"}, Gtid_IO_Pos="0-1-7", Retrieved_Gtid_Set="a:1-7")
    applied = "0-1-5" if dialect == "mariadb" else "a:1-5"
    server, connections = dialled({words.status: [row], "SELECT @@": [{"gtids": applied}]}, dialect)
    error = refused(getattr(Replica(server), act), *(("source", 3306) if act == "replicate_from" else ()))

    assert "the applier is stopped; 2 transactions received and not applied" in error.found
    assert all(asked.startswith(("SHOW", "SELECT")) for asked in connections[0].asked)


@pytest.mark.parametrize("ended_by", [LabError("its applier has stopped", "", ""), KeyboardInterrupt()])
@pytest.mark.parametrize(("io", "goes_on"), [("Yes", ["START REPLICA IO_THREAD"]), ("No", [])])
def test_a_replica_that_cannot_apply_the_last_transactions_goes_on_receiving(
    dialled, monkeypatch, ended_by, io, goes_on
):
    """If it received before: the wait was interrupted, or its applier stopped, just after the receiver was stopped."""
    settled = iter([None])

    def then_ends(*_asked):
        if next(settled, ended_by):
            raise ended_by

    monkeypatch.setattr(Replica, "settled", then_ends)
    server, connections = dialled({"SHOW": [status_row("mysql", Replica_IO_Running=io)]}, "mysql")
    with pytest.raises(type(ended_by)):
        Replica(server).stop_following()
    orders = [asked for asked in connections[0].asked if not asked.startswith(("SHOW", "SELECT"))]

    assert orders == ["STOP REPLICA IO_THREAD", *goes_on]


def test_mariadbs_receiver_is_not_started_beside_an_applier_that_has_stopped(dialled, monkeypatch):
    """Its relay log would be deleted; the error says what is in it."""
    settled = iter([None, LabError("its applier has stopped", "", "")])

    def then_ends(*_asked):
        if error := next(settled):
            raise error

    monkeypatch.setattr(Replica, "settled", then_ends)
    row = status_row("mariadb", Slave_SQL_Running="No", Gtid_IO_Pos="0-1-7")
    server, connections = dialled({"SHOW": [row], "SELECT @@": [{"gtids": "0-1-5"}]})
    with pytest.raises(LabError):
        Replica(server).stop_following()

    assert "START SLAVE IO_THREAD" not in connections[0].asked


@pytest.mark.parametrize(("shrinks", "waits"), [(True, replica.APPLY_SECONDS), (False, replica.STILL_SECONDS)])
def test_an_applier_is_waited_for_as_long_as_it_makes_progress(monkeypatch, shrinks, waits):
    """And not for ever."""
    now = [0.0]
    monkeypatch.setattr(clock, "timer", lambda: now[0])
    monkeypatch.setattr(clock, "pause", lambda seconds: now.__setitem__(0, now[0] + seconds))
    server = Server("near", ("127.0.0.1", 1), dialects()["mariadb"], "")

    def backlog(self, kept):
        return Backlog({"0-1": [(int(now[0] * 100) if shrinks else 1, 9_999)]}, "still applying: ", moves=True)

    monkeypatch.setattr(Replica, "backlog", backlog)
    monkeypatch.setattr(Replica, "_status_row", lambda self: {})

    assert str(Replica(server).settled()).startswith("still applying: ")
    assert now[0] == pytest.approx(waits, abs=0.1)
