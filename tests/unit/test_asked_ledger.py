"""Do the clients of a drill run the user's own transactions, each with the row by which it is counted?"""

import threading
from itertools import islice

import pytest
from replication_lab import experiments
from replication_lab.experiments.question import experiment as answering
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.drill.history import Outcome, parse
from replication_lab.model.question.question import Question
from replication_lab.model.question.sql_load import transactions
from replication_lab.workloads.ledger import IDS_PER_CLIENT, Ledger, drawn
from replication_lab.world.mysql.client import TransactionAnswer

SHOP = GivenFile(
    "shop.sql",
    "SELECT name FROM item WHERE id = {id:1..9};\n--\n"
    "INSERT INTO orders (item, buyer) VALUES ({id:1..9}, '{buyer:4}');\n"
    "UPDATE item SET stock = stock - 1 WHERE id = {id};\n",
)
READS = GivenFile("reads.sql", "SELECT 1;\n")


class Acknowledging:
    """A client that acknowledges everything; `done` is set after ten transactions."""

    def __init__(self):
        self.sent, self.done = [], threading.Event()

    def transact(self, statements):
        if not self.done.is_set():
            self.sent.append(statements)
        if len(self.sent) == 10:
            self.done.set()
        return TransactionAnswer(Outcome.ACKNOWLEDGED)

    def close(self):
        pass


def question(**others) -> Question:
    return Question(**{"topologies": ["async"], "drill": "lose-source", "workload": SHOP, "ledger": True} | others)


def test_each_round_runs_every_transaction_with_values_of_its_own():
    """A parameter has the same value everywhere in a transaction; values depend on the seed and the client's number."""
    found = list(islice(drawn(transactions(SHOP), 7, 1), 40))
    orders = [each.statements for each in found if each.writes]

    assert all({one.writes, other.writes} == {True, False} for one, other in zip(found[::2], found[1::2], strict=True))
    assert len({found[at].writes for at in range(0, 40, 2)}) == 2, "the orders differ"
    assert all(insert.partition("(item, buyer) VALUES (")[2][0] == update[-1] for insert, update in orders)
    assert len({tuple(statements) for statements in orders}) > 15
    assert found == list(islice(drawn(transactions(SHOP), 7, 1), 40))
    assert found != list(islice(drawn(transactions(SHOP), 7, 2), 40))


def test_a_transaction_that_writes_has_its_row_and_one_that_reads_is_not_recorded():
    """In the same transaction: it is lost with it."""
    lines = []
    client = Acknowledging()
    with Ledger({"node1": 1}, transactions=transactions(SHOP), seed=7).writing(lambda _node: client, lines.append):
        assert client.done.wait(5)
    attempts = parse(lines).attempts
    writing = [statements for statements in client.sent if len(statements) > 1]

    assert [statements[-1] for statements in writing] == [
        f"INSERT INTO lab.ledger (id) VALUES ({IDS_PER_CLIENT + number})" for number in range(len(writing))
    ]
    assert all(len(statements) == 3 and statements[0].startswith("INSERT INTO orders") for statements in writing)
    assert {statements[0].split()[0] for statements in client.sent if len(statements) == 1} == {"SELECT"}
    assert len(attempts) >= len(writing) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drill": "", "vary": {"clients": ["1", "2"]}}, "no fault could lose a row"),
        ({"workload": "inserts"}, "--ledger with the load inserts"),
        ({"workload": GivenFile("load.lua", "function event() end")}, "--ledger with the load load.lua"),
        ({"workload": READS}, "no transaction of reads.sql writes"),
    ],
)
def test_a_ledger_of_anything_else_is_refused(change, said, refused):
    """Before anything starts."""
    assert said in refused(question, **change).found


def test_the_users_tables_are_made_before_a_drill(monkeypatch):
    """On the node that accepts writes; without a ledger nothing of the user's is needed."""
    made = []
    monkeypatch.setattr(answering, "make_tables", lambda asked, _lab, writer: made.append((asked.ledger, writer)))
    monkeypatch.setattr(answering, "put", lambda *_: type("Kept", (), {"proofs": None}))
    monkeypatch.setattr(
        answering.replication, "of", lambda _lab: type("Kind", (), {"written_at": lambda _: "source"})()
    )
    for asked in (question(), question(ledger=False)):
        experiment = experiments.asked(asked)
        experiment.hold(None, experiment.cases[0])

    assert made == [(True, "source")]
