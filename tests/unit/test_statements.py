"""Is a statement that may have had an effect never sent again, and is every message about one true?"""

import socket
import time
from contextlib import contextmanager

import pymysql
import pytest
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.lab.mysql_errors import code_of, is_definite, is_lost
from replication_lab.model.question.sql_text import only_reads
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server

GONE = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
KILLED = pymysql.err.OperationalError(1927, "Connection was killed")
REFUSED = pymysql.err.OperationalError(1290, "The server is running with --read-only")
INSERT, SELECT = "INSERT INTO lab.t VALUES (1)", "SELECT COUNT(*) FROM lab.t"


def silent():
    """Return the error of a client that has waited in vain: the library raises it while it handles the timeout."""
    try:
        try:
            raise TimeoutError("timed out")
        except TimeoutError as error:
            raise pymysql.err.OperationalError(2013, f"Lost connection to MySQL server during query ({error})")  # noqa: B904 - as PyMySQL does
    except pymysql.err.OperationalError as error:
        return error


class Wire:
    """A connection that sends statements; each of `fails` is raised once, after a statement was sent."""

    def __init__(self, sent, fails):
        self.sent, self.fails = sent, fails
        self.ended, self.alive, self.pings = False, True, 0

    def thread_id(self):
        return 1

    @contextmanager
    def cursor(self, _kind=None):
        yield self

    def execute(self, statement):
        self.sent.append(statement)
        if self.fails:
            raise self.fails.pop(0)

    def fetchall(self):
        return [{"n": 1}]

    def has_news(self):
        return self.ended

    def answers(self, _seconds):
        self.pings += 1
        return self.alive

    def close(self):
        pass


@pytest.fixture
def dialled(monkeypatch):
    """Return a function that makes a server whose statements fail in this way, what was sent, and its connections."""

    def make(*fails):
        sent, left, wires = [], list(fails), []

        def connect(**_options):
            wires.append(Wire(sent, left))
            return wires[-1]

        monkeypatch.setattr(tls, "TlsConnection", connect)
        return Server("source", ("127.0.0.1", 1), dialects()["mariadb"], {"root": "secret"}), sent, wires

    return make


# --- sent once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [GONE, KILLED, silent(), ConnectionResetError(104, "Connection reset by peer")])
def test_a_statement_with_an_effect_whose_answer_is_lost_is_sent_once(dialled, error):
    """Whether it had its effect is unknown, and the message says where it was sent and how to look."""
    server, sent, _ = dialled(error)
    with pytest.raises(OutcomeUnknown) as found:
        server.execute(INSERT)

    assert sent == [INSERT]
    assert INSERT in found.value.found and "source" in found.value.found and "./lab sql source" in found.value.next_step


@pytest.mark.parametrize("call", ["rows", "value", "execute", "run"])
def test_no_way_of_asking_sends_an_effect_twice(dialled, call):
    """Also a query that calls a function."""
    server, sent, _ = dialled(GONE)
    with pytest.raises(OutcomeUnknown):
        getattr(server, call)("SELECT group_replication_set_as_primary('uuid')")

    assert len(sent) == 1


def test_a_read_whose_connection_was_lost_is_sent_again_on_a_new_one(dialled):
    """It has no effect."""
    server, sent, wires = dialled(GONE)

    assert server.value(SELECT) == 1
    assert sent == [SELECT, SELECT] and len(wires) == 2


def test_a_read_that_is_lost_twice_is_an_error(dialled):
    """Not sent a third time."""
    server, sent, _ = dialled(GONE, GONE)
    with pytest.raises(LabError):
        server.rows(SELECT)

    assert len(sent) == 2


def test_a_users_read_is_sent_once_too(dialled):
    """Its table may be a view that calls a function."""
    server, sent, _ = dialled(GONE)
    with pytest.raises(OutcomeUnknown):
        server.run(SELECT)

    assert sent == [SELECT]


@pytest.mark.parametrize("sql", [INSERT, SELECT])
def test_no_answer_in_time_says_that_the_statement_may_still_run(dialled, sql):
    """A long statement did not fail; nothing is sent again, which would only run beside it."""
    server, sent, _ = dialled(silent())
    with pytest.raises(OutcomeUnknown) as found:
        server.rows(sql)

    assert "no answer from source within 60 s" in found.value.found and "may still run there" in found.value.found
    assert "SHOW PROCESSLIST" in found.value.next_step and sent == [sql]


def test_a_refusal_is_no_unknown_outcome(dialled):
    """The server said that it did nothing."""
    server, sent, wires = dialled(REFUSED)
    with pytest.raises(LabError) as found:
        server.execute(INSERT)

    assert not isinstance(found.value, OutcomeUnknown) and "--read-only" in found.value.found
    assert sent == [INSERT] and len(wires) == 1


def test_a_connection_that_the_server_has_ended_is_replaced_before_anything_is_sent(dialled):
    """After a restart of the server: each statement is sent once, on a connection that is open."""
    server, sent, wires = dialled()
    server.execute(INSERT)
    wires[0].ended, wires[0].alive = True, False
    server.execute(INSERT)

    assert sent == [INSERT, INSERT] and len(wires) == 2


def test_an_idle_connection_is_checked_and_a_busy_one_is_not(dialled, monkeypatch):
    """A ping takes a round trip; the end of a connection does not always arrive."""
    server, _, wires = dialled()
    server.execute(INSERT, INSERT)
    assert wires[0].pings == 0
    server._answered -= 3600
    wires[0].alive = False
    server.execute(INSERT)

    assert wires[0].pings == 1 and len(wires) == 2


def test_a_server_that_cannot_be_reached_was_sent_nothing(dialled, monkeypatch):
    """Its outcome is known."""

    def gone(**_options):
        raise pymysql.err.OperationalError(2003, "Can't connect to server")

    server, sent, _ = dialled()
    monkeypatch.setattr(tls, "TlsConnection", gone)
    with pytest.raises(LabError) as found:
        server.execute(INSERT)

    assert not isinstance(found.value, OutcomeUnknown) and sent == []


def test_an_error_of_a_socket_has_no_number_of_a_server():
    """Its errno would be taken for a refusal by a server."""
    reset = ConnectionResetError(104, "Connection reset by peer")

    assert code_of(reset) is None and is_lost(code_of(reset)) and not is_definite(code_of(reset))


@pytest.fixture
def pair_of_sockets():
    """Yield a connection of the library on one end of a pair of sockets, and the other end."""
    near, far = socket.socketpair()
    connection = tls.TlsConnection(defer_connect=True)
    vars(connection).update(_sock=near, _rfile=near.makefile("rb"), _current_timeout=None)
    yield connection, far
    near.close()
    far.close()


def test_the_end_of_a_connection_is_seen_without_sending_anything(pair_of_sockets):
    """The other end receives nothing."""
    connection, far = pair_of_sockets
    assert not connection.has_news()
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    far.shutdown(socket.SHUT_WR)

    assert connection.has_news() and not connection.answers(0.2)


def test_a_server_that_does_not_answer_a_ping_is_given_up_soon(pair_of_sockets):
    """A frozen one; the patience for statements is as before."""
    connection, _ = pair_of_sockets

    assert not connection.answers(0.01)
    assert connection.has_news(), "the connection is closed"
    assert connection._read_timeout is None


def test_a_connection_with_an_end_does_not_wait_longer_for_a_later_answer(pair_of_sockets):
    """However long each answer could take by itself."""
    connection, _ = pair_of_sockets
    began = time.monotonic()
    vars(connection).update(_until=began + 0.05, _read_timeout=10.0)

    assert not connection.answers(10) and time.monotonic() - began < 5


# --- what only reads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select COUNT(*) from lab.t where text = 'FOR UPDATE; INTO'",
        "SHOW GLOBAL STATUS LIKE 'wsrep\\_%'",
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('a', 'b')",
        "SELECT @@GLOBAL.sync_binlog",
        "SELECT GTID_SUBSET('a:1', 'a:1-2')",
    ],
)
def test_a_statement_that_only_reads(sql):
    """The forms that the lab uses."""
    assert only_reads(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t FOR SHARE",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 1 INTO @a",
        "SELECT @a := 1",
        "SELECT SLEEP(1)",
        "SELECT sleep (1)",
        "SELECT `SLEEP`(1)",
        'SELECT "f"(1)',
        "SELECT lab.f(1)",
        "SELECT `lab`.`count`(1)",
        "SELECT SLEEP/* x */(1)",
        "SELECT SLEEP -- x\n(1)",
        "SELECT SLEEP # x\n(1)",
        "SELECT GET_LOCK('a', 1)",
        "SELECT MASTER_GTID_WAIT('0-1-1', 5)",
        "SELECT NEXTVAL(s)",
        "SELECT NEXT VALUE FOR s",
        "SELECT group_replication_set_as_primary('u')",
        "SHOW STATUS WHERE SLEEP(1)",
        "SELECT 1; DROP TABLE t",
        "/* SELECT */ DROP TABLE t",
        "WITH a AS (SELECT f()) SELECT * FROM a",
        "CALL p()",
        "EXPLAIN SELECT 1",
        "DO 1",
        "",
    ],
)
def test_any_doubt_makes_it_a_statement_with_an_effect(sql):
    """Better sent once too rarely than twice."""
    assert not only_reads(sql)
