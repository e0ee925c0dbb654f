"""Are a user's transactions checked for anomalies where they can be, and refused with the statement where not?"""

from decimal import Decimal
from random import Random
from types import SimpleNamespace

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.anomalies import anomalies, example
from replication_lab.model.isolation.transactions import SeenTransaction
from replication_lab.model.question.question import Question
from replication_lab.model.question.registers import registers
from replication_lab.model.question.sql_load import Numbers, transactions
from replication_lab.workloads import histories
from replication_lab.workloads._colliding import KEYS, RegisterRecorder
from replication_lab.workloads.histories import CheckedTransactions

ACCOUNTS = """SELECT balance FROM account WHERE id = {id:1..4} FOR UPDATE;
UPDATE account SET balance = {new:1..2000000000} WHERE id = {id};
--
SELECT * FROM `lab`.account WHERE ID = 3;
"""


TRANSFER = ACCOUNTS.partition("--")[0]


def parsed(text=ACCOUNTS):
    return registers(transactions(GivenFile("accounts.sql", text)))


def question(text=ACCOUNTS, **others):
    known = {"topologies": ["single"], "vary": {"transaction_isolation": ["READ-COMMITTED", "SERIALIZABLE"]}}
    own = {"settings": {"clients": "6"}, "workload": GivenFile("accounts.sql", text), "check": True}
    return Question(**known | own | others)


# --- what can be checked ----------------------------------------------------------------------------------------------


def test_statements_on_one_row_by_its_key_are_reads_and_writes():
    """Of the columns that some transaction writes."""
    found = parsed()

    assert found.columns == [("lab.account", "balance")] and found.values == Numbers(1, 2_000_000_000)
    assert found.rows == {("lab.account", "id", Numbers(1, 4)), ("lab.account", "id", Numbers(3, 3))}
    assert [(step.key, step.reads, step.writes) for each in found.transactions for step in each.steps] == [
        ("id", ("balance",), ()),
        ("id", (), ("balance",)),
        ("3", ("*",), ()),
    ]


def test_names_in_backticks_are_taken_as_they_are():
    """A comma, an equals sign or a reserved word in one is part of the name."""
    (found,) = parsed(
        "SELECT `a,b`, `x=y` FROM t WHERE `key` = 1; UPDATE t SET `x=y` = {new:1..2000000000} WHERE `key` = 1;"
    ).transactions

    assert [(step.key_column, step.reads, step.writes) for step in found.steps] == [
        ("key", ("a,b", "x=y"), ()),
        ("key", (), ("x=y",)),
    ]


READ = "SELECT a FROM t WHERE id = {id:1..9};"
WRITE = "UPDATE t SET a = {new:1..2000000000} WHERE id = {id:1..9};"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "UPDATE t SET a = a - 1 WHERE id = {id:1..9};",
            "`UPDATE t SET a = a - 1 WHERE id = {id}`: what it writes is not",
        ),
        ("UPDATE t SET a = 7 WHERE id = {id:1..9};", "what it writes is not a parameter of its own"),
        ("UPDATE t SET a = {new:1..2000000000};", "it does not name one row by one key"),
        ("SELECT a FROM t WHERE id > {id:1..9};", "it does not name one row by one key"),
        ("SELECT a FROM t WHERE id = {id:1..9} AND b = 1;", "it does not name one row by one key"),
        ("SELECT SUM(a) FROM t WHERE id = {id:1..9};", "it does not name one row by one key"),
        ("INSERT INTO t VALUES (1);", "INSERT neither reads nor updates a row that is there"),
        ("DELETE FROM t WHERE id = {id:1..9};", "DELETE neither reads nor updates"),
        ("SET @a = 1;", "SET neither reads nor updates"),
        (f"{READ}\n--\nUPDATE t SET a = {{new:8}} WHERE id = {{id:1..9}};", "{new} have less than 1000000 numbers"),
        (f"{READ}\n--\nUPDATE t SET a = {{new:1..99}} WHERE id = {{id:1..9}};", "{new} have less than 1000000 numbers"),
        (
            f"{WRITE}\n--\nUPDATE t SET b = {{new:1..99}} WHERE id = 1;\n--\n{READ}",
            "{new} have less than 1000000 numbers",
        ),
        (
            "UPDATE t SET a = {id:1..2000000000} WHERE id = {id};",
            "its key {id} is not a number, or is written elsewhere",
        ),
        ("SELECT a FROM t WHERE id = {id:8};", "its key {id} is not a number"),
        (WRITE, "no statement reads a column that a statement writes"),
        (f"{WRITE}\n--\nSELECT b FROM t WHERE id = 1;", "no statement reads a column that a statement writes"),
        (f"{WRITE}\n--\nSELECT a FROM t WHERE name = 1;", "rows of lab.t are found by"),
        (f"{READ}\n--\nUPDATE t SET id = {{v:1..2000000000}}, a = {{v}} WHERE id = 1;", "by a column that is written"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_the_statement(text, said, refused):
    """Before anything starts, with what can be, and what can be done instead."""
    error = refused(question, text)

    assert said.replace("`", "") in error.found and error.found.startswith("--check: ")
    if "less than" not in said:
        assert "WHERE KEY = " in error.expected and "lab run isolation" in error.next_step


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"workload": "oltp_read_write"}, "--check with the load oltp_read_write"),
        ({"workload": GivenFile("load.lua", "function event() end")}, "--check with the load load.lua"),
        ({"settings": {}}, "--check with 1 client"),
        ({"settings": {"clients": "6", "rate": "100/s"}}, "--check with rate"),
        ({"settings": {"clients": "6", "endpoint": "haproxy"}}, "--check with endpoint"),
    ],
)
def test_a_load_that_cannot_be_checked_is_refused(change, said, refused):
    """Nothing would collide, or nobody knows what it reads and writes."""
    assert said in refused(question, **change).found


def test_a_claim_about_the_lag_is_refused_with_it(refused):
    """It is measured by other loads."""
    asked = question(topologies=["async"], claims=["lag[] <= 1"])

    assert "--check and a claim about the lag" in refused(experiments.asked, asked).found


def test_each_case_has_a_claim_that_no_transaction_shows_an_anomaly():
    """Beside what each level costs; and one case is a question."""
    claims = {claim.id: claim for claim in experiments.asked(question()).claims}
    sentence = "no transaction of accounts.sql shows an anomaly with transaction_isolation=SERIALIZABLE"

    assert claims["anomalies:transaction_isolation=SERIALIZABLE"].sentence == sentence
    assert any(name.startswith("throughput:") for name in claims)
    question(vary={"transaction_isolation": ["SERIALIZABLE"]}).refuse_a_single_case()


# --- what is recorded -------------------------------------------------------------------------------------------------


class Rows:
    """A server with rows of one table, which takes every statement at once."""

    def __init__(self, **columns):
        self.columns = {number: {"id": number, **columns} for number in range(1, 5)}
        self.sent, self.description, self.rowcount, self._row = [], None, 0, None

    def execute(self, sql):
        self.sent.append(sql)
        row = self.columns.get(int(sql.rpartition("= ")[2].split()[0]))
        self.rowcount, self.description = int(row is not None), None
        if row and sql.startswith("SELECT"):
            self.description, self._row = [(name.upper(), None) for name in row], tuple(row.values())
        elif row:
            row["balance"] = int(sql.partition("balance = ")[2].split()[0])

    def fetchone(self):
        return self._row


def recorder(number=0, first=500, text=ACCOUNTS):
    return RegisterRecorder(parsed(text), first, first + number, 2)


def test_each_value_is_written_once_and_tells_whose_write_a_read_saw():
    """What was there before the load is the first version, whatever it is."""
    rows, one, other = Rows(balance=Decimal(70)), recorder(0), recorder(1)
    for client in (one, other, one, other) * 9:
        client(rows, Random(len(rows.sent)))
    ops = [op for client in (one, other) for _, did in client.did for op in did]
    written = [op.value for op in ops if op.does == "write"]

    assert len(set(written)) == len(written) and {value % 2 for value in written} == {0, 1}
    assert {op.value for op in ops if op.reads} <= {None, *written}
    assert {op.key for op in ops} == {1, 2, 3, 4} and all(op.key < KEYS for op in ops)
    assert all(str(op.value) in op.sql for op in ops if op.does == "write")


@pytest.mark.parametrize("value", [None, 499, Decimal(499)])
def test_a_value_of_before_the_load_is_the_first_version(value):
    """It was written by nobody."""
    client = recorder()

    assert client._version(value) is None and client._version(Decimal(500)) == 500


def test_a_row_that_is_gone_ends_the_load(refused):
    """A write that changed nothing would seem to be lost."""
    rows = Rows(balance=1)
    rows.columns.clear()

    assert "found no row" in refused(recorder(), rows, Random(1)).found


def test_a_load_that_has_used_all_numbers_ends(refused):
    """No number is written twice."""
    assert "written once" in refused(recorder(first=2_000_000_001, text=TRANSFER), Rows(balance=1), Random(1)).found


def test_the_shortest_anomaly_is_told_in_the_users_statements():
    """Two clients read the same balance, and both wrote it."""
    history = []
    for number in range(2):
        rows, client = Rows(balance=70), recorder(number, text=TRANSFER)
        client(rows, Random(4))
        ((_, did),) = client.did
        history.append(
            SeenTransaction(
                client=number + 1, node="server", began=0.0, ended=1.0, outcome=Outcome.ACKNOWLEDGED, ops=tuple(did)
            )
        )
    (found,) = anomalies(history)
    said = example(found, history)

    assert found.kind == "lost_updates"
    assert "client 1 on server, 0.000 to 1.000 s, `SELECT balance FROM account WHERE id = 3 FOR UPDATE`" in said
    assert "`UPDATE account SET balance = 501 WHERE id = 3`" in said


# --- the rows that it needs -------------------------------------------------------------------------------------------


@pytest.fixture
def lab(monkeypatch):
    """Return a lab of one server, whose answers are `rows` and `most`."""
    server = SimpleNamespace(found={"many": 4, "different": 4}, most=7, mode="STRICT_TRANS_TABLES,ANSI")
    server.rows, server.value = lambda _sql: [server.found], lambda _sql: server.most
    server.settings = lambda name: {name: server.mode}
    node, nodes = SimpleNamespace(server=lambda: server), SimpleNamespace(written_at=lambda: "server")
    monkeypatch.setattr(histories.replication, "of", lambda _lab: nodes)
    return SimpleNamespace(node=lambda _name: node, server=server)


@pytest.mark.parametrize("found", [{"many": 3, "different": 3}, {"many": 4, "different": 3}])
def test_there_has_to_be_one_row_of_each_key(lab, found, refused):
    """Else a write that changed nothing would be lost, and one of two rows hidden."""
    CheckedTransactions(parsed(TRANSFER)).try_out(lab)
    lab.server.found = found

    assert "lab.account with id from 1 to 4" in refused(CheckedTransactions(parsed(TRANSFER)).try_out, lab).found


def test_a_server_that_cuts_numbers_is_refused(lab, refused):
    """A cut number would look like one that another client wrote."""
    lab.server.mode = "ANSI"

    assert "sql_mode is 'ANSI'" in refused(CheckedTransactions(parsed(TRANSFER)).try_out, lab).found


def test_written_numbers_begin_above_those_of_the_rows(lab, refused):
    """A column of something else than whole numbers is refused."""
    load = CheckedTransactions(parsed())
    assert load._first(lab) == 8
    lab.server.most = None
    assert load._first(lab) == 1
    lab.server.most = "much"

    assert "lab.account.balance holds 'much'" in refused(load._first, lab).found


def test_nothing_is_made_for_it(lab):
    """The tables are the user's."""
    CheckedTransactions(parsed()).prepare(lab)
    with pytest.raises(LabError, match="not a parameter of its own"):
        parsed("UPDATE t SET a = a + 1 WHERE id = 1;")
