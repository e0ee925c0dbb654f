"""Does one server answer the same questions in every dialect, and say clearly when it does not answer?"""

import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

from tests.fakes.connection import PASSWORDS, WORDS, FakeConnection, dialled_by, status_row

LOST = pymysql.err.OperationalError(2013, "Lost connection to server during query")
REFUSED = pymysql.err.OperationalError(1045, "Access denied for user 'root'")


@pytest.fixture
def dialled(monkeypatch):
    """Make a server whose every connection is one that answers as told; returns (server, connections dialled)."""
    return dialled_by(monkeypatch)


# --- dialects ---------------------------------------------------------------------------------------------------------


def test_every_engine_has_a_dialect_and_every_dialect_an_engine():
    """A dialect without an engine, or an engine without a dialect, is a mistake in the data."""
    assert {engine.dialect for engine in catalogue.engines().values()} == set(dialects()) == set(WORDS)


@pytest.mark.parametrize("dialect", sorted(WORDS))
def test_the_state_of_a_replica_is_read_in_its_dialect(dialect, dialled):
    """Threads, address, error and lag come from columns of different names."""
    words = WORDS[dialect]
    found = Replica(dialled({words.status: [status_row(dialect)]}, dialect)[0]).status()
    broken = Replica(
        dialled({words.status: [status_row(dialect, Last_SQL_Error="duplicate key", **{words.sql: "No"})]}, dialect)[0]
    ).status()

    assert (found.healthy, found.host, found.port, found.error, found.lag_seconds) == (True, "toxiproxy", 21002, "", 0)
    assert (broken.healthy, broken.connected, broken.error) == (False, True, "duplicate key")


def test_a_server_without_a_source_has_no_replication(dialled):
    """No row of status is None, not an error."""
    assert Replica(dialled()[0]).status() is None


@pytest.mark.parametrize(
    ("dialect", "prefix"),
    [("mariadb", "rpl_semi_sync_master"), ("mysql", "rpl_semi_sync_source"), ("mysql-5.5", "rpl_semi_sync_master")],
)
def test_semi_sync_is_read_in_its_dialect(dialect, prefix, dialled):
    """Counters and variables of different names make one state."""
    counters = {"status": "ON", "clients": "1", "yes_tx": "7", "no_tx": "2", "no_times": "1"}
    settings = {"enabled": "ON", "timeout": "10000"} | ({} if dialect == "mysql-5.5" else {"wait_point": "AFTER_SYNC"})

    def rows(values):
        return [{"Variable_name": f"{prefix}_{name}".capitalize(), "Value": value} for name, value in values.items()]

    answers = {
        f"SHOW GLOBAL STATUS LIKE '{prefix}%'": rows(counters),
        f"SHOW GLOBAL VARIABLES LIKE '{prefix}%'": rows(settings),
    }
    found = SemiSync(dialled(answers, dialect)[0]).status()

    assert (found.enabled, found.active, found.replicas) == (True, True, 1)
    assert (found.acknowledged, found.unacknowledged, found.fallbacks, found.timeout_ms) == (7, 2, 1, 10_000)
    assert found.wait_point == (None if dialect == "mysql-5.5" else "AFTER_SYNC")


def test_a_server_without_the_plugin_has_semi_sync_off(dialled):
    """Nothing known of semi-sync reads as off, not as an error."""
    found = SemiSync(dialled()[0]).status()

    assert (found.enabled, found.active, found.acknowledged) == (False, False, 0)


def test_semi_sync_is_set_with_the_wait_point_first(dialled):
    """It is switched on last, with the wait point and the timeout already in place."""
    prefix, kept = "rpl_semi_sync_master", {"wait_point": "AFTER_SYNC", "timeout": 10_000, "enabled": 1}
    server, connections = dialled(
        {f"SELECT @@GLOBAL.{prefix}_{name}": [{f"{prefix}_{name}": value}] for name, value in kept.items()}
    )
    SemiSync(server).set(True, "AFTER_SYNC", 10_000)

    assert [asked for asked in connections[0].asked if asked.startswith("SET")] == [
        "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'",
        "SET GLOBAL rpl_semi_sync_master_timeout = 10000",
        "SET GLOBAL rpl_semi_sync_master_enabled = 1",
    ]


def test_a_value_that_the_server_changes_is_an_error(dialled):
    """Nothing would be measured with the requested one."""
    server, _ = dialled({"SELECT @@GLOBAL.tmp_table_size": [{"tmp_table_size": 1024}]})
    server.set_global(tmp_table_size="1k")
    with pytest.raises(LabError, match="replica changed tmp_table_size=1 to 1024"):
        server.set_global(tmp_table_size=1)


@pytest.mark.parametrize(
    ("dialect", "row", "change"),
    [
        ("mariadb", {}, "CHANGE MASTER TO MASTER_HOST='source', MASTER_PORT=3306"),
        ("mysql", {}, "CHANGE REPLICATION SOURCE TO SOURCE_HOST='source', SOURCE_PORT=3306"),
        (
            "mysql-5.5",
            {},
            "CHANGE MASTER TO MASTER_HOST='source', MASTER_PORT=3306"
            ", MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=4711",
        ),
    ],
)
def test_a_replica_is_told_another_address_once_it_has_applied_everything(dialect, row, change, dialled):
    """The IO thread stops first, then the applier; a server without GTIDs is told its place again."""
    places = {
        "Master_Log_File": "bin.000003",
        "Read_Master_Log_Pos": 4711,
        "Relay_Master_Log_File": "bin.000003",
        "Exec_Master_Log_Pos": 4711,
    }
    if dialect == "mysql":
        places = {"Retrieved_Gtid_Set": "a:1-9"}
    words = WORDS[dialect]
    row = status_row(dialect, **places, **{words.host: "source", words.port: 3306})
    server, connections = dialled({words.status: [row], "SELECT @@": [{"gtids": "a:1-9"}]}, dialect)
    Replica(server).replicate_from("source", 3306)
    orders = [each for each in connections[0].asked if not each.startswith(("SHOW", "SELECT"))]
    dialect = dialects()[dialect]

    assert orders == [dialect.stop_io, dialect.stop, change, dialect.start]


def test_the_own_position_is_a_gtid_or_a_place(dialled):
    """With GTIDs one word (newlines out), without them a file and a place in it."""
    assert BinaryLog(dialled({"SELECT @@gtid_executed": [{"x": "a:1-9,\nb:1-3"}]}, "mysql")[0]).position() == {
        "position": "a:1-9,b:1-3"
    }
    row = {"File": "bin.000001", "Position": 107, "Binlog_Do_DB": ""}
    assert BinaryLog(dialled({"SHOW MASTER STATUS": [row]}, "mysql-5.5")[0]).position() == {
        "file": "bin.000001",
        "place": 107,
    }


@pytest.mark.parametrize(("dialect", "caught_up"), [("mariadb", 0), ("mysql", 0), ("mysql-5.5", 3)])
def test_waiting_for_a_position_that_comes_returns(dialect, caught_up, dialled):
    """MASTER_POS_WAIT answers with the number of events, the others with 0."""
    position = {"file": "bin.000001", "place": 4} if dialect == "mysql-5.5" else {"position": "0-1-1"}
    Replica(dialled({"SELECT": [{"answer": caught_up}]}, dialect)[0]).wait_for(position)


@pytest.mark.parametrize(
    ("dialect", "answer"), [("mariadb", -1), ("mysql", 1), ("mysql-5.5", -1), ("mysql-5.5", None), ("mariadb", None)]
)
def test_waiting_for_a_position_that_does_not_come_is_an_error(dialect, answer, dialled, refused):
    """A timeout, or an applier that stopped, names the server and the error of its replication."""
    position = {"file": "bin.000001", "place": 4} if dialect == "mysql-5.5" else {"position": "0-1-1"}
    row = status_row(dialect, Last_SQL_Error="row not found")
    server, _ = dialled({"SELECT": [{"answer": answer}], WORDS[dialect].status: [row]}, dialect)
    error = refused(Replica(server).wait_for, position, 5)

    assert "replica did not catch up within 5 s (row not found)" in error.found


@pytest.mark.parametrize("dialect", ["mariadb", "mysql", "mysql-5.5"])
@pytest.mark.parametrize("thread", ["io", "sql"])
def test_a_wait_ends_at_once_if_a_thread_has_ended_with_an_error(dialect, thread, dialled, refused):
    """It does not start again by itself. A thread without an error may be about to start."""
    position = {"file": "bin.000001", "place": 4} if dialect == "mysql-5.5" else {"position": "0-1-1"}
    not_yet = 1 if dialect == "mysql" else -1
    words = WORDS[dialect]
    error = {"io": "Last_IO_Error", "sql": "Last_SQL_Error"}[thread]

    def waited(**row):
        answers = {"SELECT": [{"answer": not_yet}], words.status: [status_row(dialect, **row)]}
        server, connections = dialled(answers, dialect)
        found = refused(Replica(server).wait_for, position, 50).found
        return found, sum(each.startswith("SELECT") for each in connections[0].asked)

    ended, asked = waited(**{getattr(words, thread): "No", error: "1049 Unknown database 'lab'"})
    assert ended == "replica has stopped replicating: 1049 Unknown database 'lab'" and asked == 1
    slow, often = waited(**{getattr(words, thread): "No"})
    assert slow.startswith("replica did not catch up within 50 s") and often == 50


# --- asking -----------------------------------------------------------------------------------------------------------


def test_rows_and_values(dialled):
    """An answer is a list of dictionaries, its first value, or None."""
    server, _ = dialled({"SELECT VERSION()": [{"v": "11.8.6"}]})

    assert server.rows("SELECT VERSION()") == [{"v": "11.8.6"}]
    assert server.version() == "11.8.6"
    assert server.value("SELECT 1 WHERE 0") is None


def test_a_lost_connection_is_dialled_again_once(dialled):
    """A server that was restarted answers on a new connection; the old one is closed."""
    server, connections = dialled({"SELECT 1": [{"1": 1}], "SELECT 2": LOST})
    server.rows("SELECT 1")
    server.rows("SELECT 2")

    assert [each.asked for each in connections] == [["SELECT 1", "SELECT 2"], ["SELECT 2"]]
    assert [each.closed for each in connections] == [True, False]


def test_a_refused_statement_is_not_tried_again(dialled, refused):
    """The server's own words, the statement and the command to look with."""
    server, connections = dialled({"DROP": REFUSED})
    error = refused(server.rows, "DROP TABLE lab.foo")

    assert "`DROP TABLE lab.foo` on replica failed:" in error.found and "Access denied" in error.found
    assert "./lab sql replica" in error.next_step
    assert len(connections) == 1


def test_a_server_that_does_not_come_back_is_an_error(monkeypatch, refused):
    """A second failure to connect is worded, not raised bare."""

    def gone(**_options):
        raise pymysql.err.OperationalError(2003, "Can't connect to server on '127.0.0.1'")

    monkeypatch.setattr(tls, "TlsConnection", gone)
    server = Server("source", ("127.0.0.1", 1), dialects()["mysql"], PASSWORDS)

    assert "Can't connect" in refused(server.version).found


def test_tables_and_checksums_compare_copies(dialled):
    """Tables come with their database, whichever it is, and without views; checksums are the server's own."""
    answers = {
        "SELECT CONCAT": [{"name": "`shop`.`order`"}],
        "CHECKSUM TABLE `shop`.`order`": [{"Table": "shop.order", "Checksum": 42}],
    }
    server, connections = dialled(answers)

    assert server.tables("InnoDB") == ["`shop`.`order`"]
    assert "'BASE TABLE'" in (asked := connections[0].asked[0]) and "ENGINE = 'InnoDB'" in asked
    assert server.checksum("`shop`.`order`") == 42


def test_a_server_is_asked_for_as_long_as_its_answer_may_take(monkeypatch, refused):
    """On a connection of its own, so that the others keep their patience."""
    given = []

    def gone(**options):
        given.append(options["read_timeout"])
        raise pymysql.err.OperationalError(2003, "Can't connect to server on '127.0.0.1'")

    monkeypatch.setattr(tls, "TlsConnection", gone)
    server = Server("source", ("127.0.0.1", 1), dialects()["mysql"], PASSWORDS)
    refused(server.within(2).version)
    refused(server.version)

    assert 1 < given[0] <= 2 and set(given[1:]) == {60}


def test_a_session_is_closed_at_its_end(dialled):
    """Also when its user fails."""
    server, connections = dialled()
    with pytest.raises(ZeroDivisionError), server.session():
        raise ZeroDivisionError

    assert connections[0].closed


# --- another source ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["mariadb", "mysql", "mysql-5.6"])
def test_following_another_server_names_account_password_and_gtids(dialled, dialect):
    """In one statement, then the threads are started."""
    running = dialects()[dialect].columns
    row = {running.io: "Yes", running.sql: "Yes", running.host: "toxiproxy", running.port: 22001}
    row |= {running.io_error: "", running.sql_error: "", running.lag: 0}
    server, connections = dialled({"SHOW": [row]}, dialect)

    Replica(server).follow("toxiproxy", 22001)

    change, start = connections[0].asked[:2]
    assert all(word in change for word in ("toxiproxy", "22001", "replicator", "of replicator"))
    assert not [word for word in ("of root", "of lab") if word in change]
    assert "AUTO_POSITION=1" in change or "USE_GTID=slave_pos" in change
    assert start.startswith("START")


@pytest.mark.parametrize("dialect", ["mariadb", "mysql", "mysql-5.6"])
def test_a_source_that_is_refused_is_told_without_the_password(dialled, dialect, refused):
    """The statement is in the error, up to the password."""
    server, _ = dialled({"CHANGE": pymysql.err.OperationalError(1201, "Could not initialize master info")}, dialect)
    error = refused(Replica(server).follow, "toxiproxy", 22001)

    assert error.found.startswith("`CHANGE ") and "of replicator" not in str(error)


@pytest.mark.parametrize("dialect", ["mariadb", "mysql", "mysql-5.6"])
def test_a_copied_server_forgets_its_own_log(dialled, dialect):
    """And begins at the copy's GTIDs."""
    server, connections = dialled(dialect=dialect)

    BinaryLog(server).reset_gtids_to("0-1-42")

    assert connections[0].asked[0].startswith("RESET")
    assert "'0-1-42'" in connections[0].asked[1]


def test_the_older_spelling_is_used_where_the_newer_one_is_unknown(dialled):
    """MySQL 8.0 and 9.7 speak one dialect but for this."""
    unknown = pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax")
    server, connections = dialled({"RESET BINARY": unknown}, "mysql")

    BinaryLog(server).reset_gtids_to("u:1-9")

    assert [statement.split()[1] for statement in connections[0].asked[:2]] == ["BINARY", "MASTER"]


def test_a_reset_that_is_refused_in_every_spelling_is_told(dialled, refused):
    """Nothing is set then."""
    denied = pymysql.err.OperationalError(1227, "Access denied")
    server, connections = dialled({"RESET": denied}, "mariadb")

    assert "Access denied" in refused(BinaryLog(server).reset_gtids_to, "0-1-42").found
    assert len(connections[0].asked) == 1


def test_an_applications_account_is_no_administrators(dialled, monkeypatch):
    """The same server, another user with another password."""
    server, _ = dialled()
    asked = []

    def connect(user, password, **_options):
        asked.append((user, password))
        return FakeConnection({})

    monkeypatch.setattr(tls, "TlsConnection", connect)
    server.connect()
    server.as_application().connect()

    assert asked == [("root", "of root"), ("lab", "of lab")]
    assert server.as_application().address == server.address
