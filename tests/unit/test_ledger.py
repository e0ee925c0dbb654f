"""Does the ledger write down what its clients were told, before they go on, and give up nothing on the way?"""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.model.drill.history import Invoked, Outcome, RowLook, StatementEnd, encode, parse
from replication_lab.workloads.ledger import IDS_PER_CLIENT, LAST_BYTES, SERVED_SECONDS, Ledger, wait_until_served
from replication_lab.world import clock
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.client import ApplicationClient, TransactionAnswer
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server

OK = TransactionAnswer(Outcome.ACKNOWLEDGED)


class Scripted:
    """A client with scripted answers; the later ones are acknowledgements. `done` is set when the script ends."""

    def __init__(self, lines, answers=(), done=None):
        self.lines, self.answers, self.done = lines, list(answers), done or threading.Event()
        self.seen, self.closed = [], False

    def transact(self, statements):
        # The file's content at this moment, to check that the statement was there before it was sent. What comes after
        # the script, until the ledger is told to end, is more of the same.
        if not self.done.is_set():
            self.seen.append((statements, list(self.lines)))
        if not self.answers:
            self.done.set()
        return self.answers.pop(0) if self.answers else OK

    def close(self):
        self.closed = True


@pytest.fixture
def written(monkeypatch):
    """Run a ledger of one client until its script has ended: (attempts, client, pauses)."""

    def run(answers, hot_row=False):
        lines, pauses = [], []
        monkeypatch.setattr(clock, "pause", lambda seconds, unless=None: pauses.append(seconds))
        client = Scripted(lines, answers)
        with Ledger({"node1": 1}, hot_row).writing(lambda node: client, lines.append):
            assert client.done.wait(5)
        return parse(lines)[0], client, pauses

    return run


@pytest.mark.parametrize(("rows", "doublings"), [(0, 0), (1, 0), (2, 1), (1000, 10)])
def test_rows_of_no_client_are_there_before_clients_write(rows, doublings):
    """At least as many; they are none of the rows that are read at the end."""
    told = []
    Ledger({"node1": 1}, rows=rows).prepare(SimpleNamespace(execute=lambda *statements: told.extend(statements)))

    assert [each for each in told if each.endswith("VALUES (0)")] == ["INSERT INTO lab.ledger (id) VALUES (0)"] * bool(
        rows
    )
    assert sum("SELECT" in each for each in told) == doublings


def test_each_answer_is_written_down_as_it_was(written):
    """Acknowledged, failed and unknown, with the error's number."""
    told = [OK, TransactionAnswer(Outcome.FAILED, 1047, "not ready"), TransactionAnswer(Outcome.UNKNOWN, 2013, "lost")]
    attempts, _, _ = written(told)

    assert [(one.outcome, one.code) for one in attempts[:3]] == [
        (Outcome.ACKNOWLEDGED, None),
        (Outcome.FAILED, 1047),
        (Outcome.UNKNOWN, 2013),
    ]
    assert [one.id for one in attempts[:3]] == [IDS_PER_CLIENT, IDS_PER_CLIENT + 1, IDS_PER_CLIENT + 2]


def test_a_statement_is_written_down_before_it_is_sent_and_its_end_before_the_next(written):
    """At any moment the file says what may be on the server."""
    _, client, _ = written([OK, OK])

    for sent, (_, lines) in enumerate(client.seen):
        assert len(lines) == 2 * sent + 1
        assert len(parse(lines)[0]) == sent + 1


def test_clients_go_on_after_losing_their_connection(written):
    """They wait between tries, and not after a conflict, which is to be tried again at once."""
    told = [
        TransactionAnswer(Outcome.UNKNOWN, 2013),
        TransactionAnswer(Outcome.FAILED, 2003),
        TransactionAnswer(Outcome.FAILED, 1213),
        OK,
    ]
    attempts, client, pauses = written(told)

    assert len(attempts) >= 4 and attempts[3].acknowledged
    assert len(pauses) == 2
    assert client.closed


def test_a_hot_row_is_changed_in_the_same_transaction(written):
    """Insert and update together: the rows tell how far the counter must be."""
    _, client, _ = written([OK], hot_row=True)
    statements, _ = client.seen[0]

    assert ["INSERT", "UPDATE"] == [statement.split()[0] for statement in statements]


def test_clients_think_only_where_they_are_asked_to(monkeypatch):
    """After an acknowledged statement; a refused client waits anyway."""
    pauses = []
    monkeypatch.setattr(clock, "pause", lambda seconds, unless=None: pauses.append(seconds))
    client = Scripted([], [OK, TransactionAnswer(Outcome.FAILED, 1047)])
    with Ledger({"node1": 1}, think_ms=5).writing(lambda node: client, lambda line: None):
        assert client.done.wait(5)

    assert pauses[:2] == [0.005, 0.1]


class Looking(Scripted):
    """A client whose reads of the newest row are scripted; None is no answer."""

    def __init__(self, found):
        super().__init__([])
        self.found, self.asked = list(found), []

    def look(self, query):
        self.asked.append(query)
        return self.found.pop(0) if self.found else None


def test_clients_look_for_their_own_row_and_for_anothers():
    """On the node that they read from; what was not answered is not written down, and nothing found is."""
    lines, writer, reader = [], Scripted([]), Looking([IDS_PER_CLIENT, -1])
    ledger = Ledger({"source": 1}, reads={"source": "replica"})
    with ledger.writing(lambda node: reader if node == "replica" else writer, lines.append):
        assert writer.done.wait(5)
    looks = parse(lines).looks

    assert [(look.reader, look.writer, look.node, look.seen) for look in looks] == [
        (1, 1, "replica", IDS_PER_CLIENT),
        (1, 1, "replica", None),
    ]
    assert f"BETWEEN {IDS_PER_CLIENT} AND {2 * IDS_PER_CLIENT - 1}" in reader.asked[0]
    assert writer.closed and reader.closed


def test_watchers_look_for_every_clients_rows():
    """They write nothing; their numbers are different from all others."""
    lines, writer, watcher = [], Scripted([]), Looking([7, 8, 9, 10])
    clients: dict[str, list[Any]] = {"source": [Scripted([]), writer], "replica": [watcher]}
    ledger = Ledger({"source": 2}, watchers={"replica": 1})
    with ledger.writing(lambda node: clients[node].pop(), lines.append):
        assert writer.done.wait(5)
        while watcher.found:
            pass
    looks = parse(lines).looks

    assert [(look.reader, look.writer, look.node) for look in looks[:2]] == [(3, 1, "replica"), (3, 2, "replica")]
    assert watcher.seen == [] and watcher.closed


def test_many_clients_use_ids_of_their_own():
    """On every node as many as asked for."""
    lines, done = [], threading.Barrier(4, timeout=5)
    connected = []

    class Meeting(Scripted):
        def transact(self, statements):
            if not self.seen:
                done.wait()
            return super().transact(statements)

    def connect(node):
        connected.append(node)
        return Meeting(lines)

    with Ledger({"node1": 1, "node2": 2}).writing(connect, lines.append):
        done.wait()
    attempts = parse(lines).attempts

    assert connected == ["node1", "node2", "node2"]
    assert {1, 2, 3} == {one.client for one in attempts}
    assert all(one.id // IDS_PER_CLIENT == one.client for one in attempts)


def test_a_client_that_breaks_is_not_passed_over():
    """A defect of the harness must not look like a quiet load."""

    class Broken(Scripted):
        def transact(self, statements):
            raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        with Ledger({"node1": 1}).writing(lambda node: Broken([]), lambda line: None):
            pass


# --- what a client knows ----------------------------------------------------------------------------------------------


class Connection:
    """A pymysql connection on which the statement that begins so ends in an error."""

    def __init__(self, fails="", error=None):
        self.fails, self.error, self.sent, self.closed = fails, error, [], False

    def thread_id(self):
        return 1

    def query(self, statement):
        self.sent.append(statement)
        if self.fails and statement.startswith(self.fails):
            raise self.error

    def rollback(self):
        self.sent.append("ROLLBACK")

    def close(self):
        self.closed = True


@pytest.fixture
def client(monkeypatch):
    """Return a client with given connections: (client, the connections as they are taken)."""

    def make(*connections):
        left = list(connections)
        server = Server("node1", ("127.0.0.1", 1), dialects()["mariadb"], {"root": "secret"})

        def connected(**_):
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(tls, "TlsConnection", connected)
        return ApplicationClient(lambda: server)

    return make


def mysql_error(code):
    import pymysql

    return pymysql.err.OperationalError(code, "as told")


def test_a_statement_whose_answer_was_lost_is_unknown(client):
    """The row may be there; the next statement takes a new connection."""
    lost, fresh = Connection("INSERT", mysql_error(2013)), Connection()
    one = client(lost, fresh)

    assert one.transact(["INSERT"]) == TransactionAnswer(Outcome.UNKNOWN, 2013, "(2013, 'as told')")
    assert lost.closed
    assert one.transact(["INSERT"]).outcome is Outcome.ACKNOWLEDGED


@pytest.mark.parametrize("code", [1047, 1213, 1205])
def test_a_statement_that_was_refused_has_failed(client, code):
    """The server itself refused it, and the connection stays open."""
    connection = Connection("INSERT", mysql_error(code))

    assert client(connection).transact(["INSERT"]).outcome is Outcome.FAILED
    assert "ROLLBACK" in connection.sent and not connection.closed


@pytest.mark.parametrize("code", [1053, 1180, 1317, 1927])
def test_an_error_that_may_come_after_the_commit_is_unknown(client, code):
    """Shut down, error during commit, interrupted, killed."""
    assert client(Connection("INSERT", mysql_error(code))).transact(["INSERT"]).outcome is Outcome.UNKNOWN


def test_a_connection_that_cannot_be_had_is_a_failure(client):
    """Nothing was sent, so nothing can be there."""
    answer = client(mysql_error(2003)).transact(["INSERT"])

    assert (answer.outcome, answer.code) == (Outcome.FAILED, 2003)


def test_a_look_that_nobody_answered_found_nothing(client):
    """Neither a row nor the absence of one."""
    assert client(mysql_error(2003)).look("SELECT 1") is None


def test_only_a_lost_commit_leaves_a_transaction_unknown(client):
    """Lost before it, the server rolls back."""
    two = ["INSERT", "UPDATE"]

    assert client(Connection("UPDATE", mysql_error(2013))).transact(two).outcome is Outcome.FAILED
    assert client(Connection("COMMIT", mysql_error(2013))).transact(two).outcome is Outcome.UNKNOWN
    assert client(Connection("COMMIT", mysql_error(1213))).transact(two).outcome is Outcome.FAILED


# --- served again -----------------------------------------------------------------------------------------------------

ACKNOWLEDGED, FAILED = Outcome.ACKNOWLEDGED, Outcome.FAILED


@pytest.mark.parametrize(
    ("outcomes", "waited"),
    [
        pytest.param([(9, FAILED), (11, ACKNOWLEDGED)], 2, id="once one is acknowledged that was sent later"),
        pytest.param([(4, ACKNOWLEDGED), (11, ACKNOWLEDGED)], 2, id="one that was under way is no service"),
        pytest.param([(11, FAILED), (12, FAILED), (13, ACKNOWLEDGED)], 3, id="an error is no service"),
        pytest.param([(11, FAILED)], SERVED_SECONDS, id="not forever"),
    ],
)
def test_a_drill_waits_until_its_clients_are_served(tmp_path, monkeypatch, outcomes, waited):
    """One line comes each second, after many that are long over; the last one may be torn."""
    file, now, coming = tmp_path / "ledger", [0.0], list(enumerate(outcomes))
    file.write_bytes(encode(RowLook(1, 2, "node1", 1.0, 2.0, 3)) * (LAST_BYTES // 20))

    def pause(_seconds):
        now[0] += 1
        with file.open("ab") as lines:
            if coming:
                number, (sent, outcome) = coming.pop(0)
                lines.write(encode(Invoked(number, 1, "node1", sent, "")) + encode(StatementEnd(number, sent, outcome)))
            if now[0] == 1:
                lines.write(b'{"event":"ended","id"')
                lines.write(b"\n")

    monkeypatch.setattr(clock, "timer", lambda: now[0])
    monkeypatch.setattr(clock, "pause", pause)
    wait_until_served(file, since=10)

    assert now[0] == waited
