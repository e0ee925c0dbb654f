"""Are rows of the user's own tables missed where a copy lacks them, and counted only where they can be counted?"""

import pytest
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill import checkers
from replication_lab.model.drill.drill import parse_drill
from replication_lab.model.drill.drill_result import judge, not_proved
from replication_lab.model.drill.history import (
    Attempt,
    Copy,
    Outcome,
    StatementEnd,
    TableContent,
    encode,
    parse,
    ranges,
)
from replication_lab.model.question.sql_load import directions, transactions
from replication_lab.report.drill_text import text
from replication_lab.runner.drill_set import promises
from replication_lab.workloads.ledger import IDS_PER_CLIENT, Ledger
from replication_lab.world.mysql.client import TransactionAnswer

from tests.unit.synthetic_drill import GALERA, KINDS, evidence, summed_up

ORDERS = "lab.orders"


def sold(number, rows=1, outcome=Outcome.ACKNOWLEDGED):
    """Return a transaction that inserted orders, one a second."""
    return Attempt(number, 1, "node1", number, number + 0.1, outcome, None, {ORDERS: rows})


def holding(node, ids, rows, checksum=7):
    return Copy(node, ranges(ids), tables={ORDERS: TableContent(rows, checksum)})


FIVE = [sold(number) for number in range(1, 6)]
WHOLE = holding("node1", range(1, 6), 8)


# --- what is lost -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "lost", "phantoms"),
    [
        pytest.param(8, 0, 0, id="all"),
        pytest.param(6, 2, 0, id="two less"),
        pytest.param(3, 5, 0, id="none of the load's"),
        pytest.param(0, 5, 0, id="not even those before the load"),
        pytest.param(9, 0, 1, id="one that no transaction made"),
    ],
)
def test_transactions_are_lost_whose_rows_a_copy_lacks(rows, lost, phantoms):
    """Although it has their rows of the ledger."""
    figures, failures = checkers.rows(FIVE, [WHOLE, holding("node2", range(1, 6), rows)], {ORDERS: 3})

    assert (figures["lost"], figures["phantoms"], failures) == (lost, phantoms, [])
    assert figures.get(f"missing_rows.node2.{ORDERS}", 0) == 8 - rows


def test_a_transaction_is_lost_once():
    """Whether its rows are missing in the ledger or elsewhere, in two tables, or on two copies."""
    both = [Attempt(each.id, 1, "node1", 0, 1, each.outcome, None, {ORDERS: 1, "lab.lines": 1}) for each in FIVE]
    copies = [
        Copy(node, [(1, 4)], tables={ORDERS: TableContent(0, 0), "lab.lines": TableContent(1, 0)}) for node in "ab"
    ]

    assert checkers.rows(both, copies, {ORDERS: 0, "lab.lines": 0})[0]["lost"] == 5


def test_the_fewest_transactions_that_explain_missing_rows_are_counted():
    """Three rows are missing: the order of three lines, or three of one; nobody can tell."""
    mixed = [sold(1, rows=3), *(sold(number) for number in range(2, 6))]
    figures, _ = checkers.rows(mixed, [holding("a", range(1, 6), 4)], {ORDERS: 0})

    assert figures["lost"] == 1
    assert figures["rpo_s"] == 4.1, "any of them may be lost"


def test_a_transaction_without_an_answer_is_never_lost():
    """It is on the copy, and its client was told nothing."""
    history = [sold(1), sold(2, outcome=Outcome.UNKNOWN)]

    assert checkers.rows(history, [holding("a", [1, 2], 0)], {ORDERS: 0})[0]["lost"] == 1
    assert checkers.rows(history, [holding("a", [1, 2], 1)], {ORDERS: 0})[0]["lost"] == 0


def test_where_clients_delete_a_row_that_is_still_there_is_lost():
    """Its client was told that it was gone."""
    history = [sold(number, rows=-1) for number in (1, 2)]

    assert checkers.rows(history, [holding("a", [1, 2], 9)], {ORDERS: 10})[0]["lost"] == 1


def test_a_table_that_a_copy_does_not_have_is_named():
    """It differs, and all of its rows are missing."""
    without = Copy("node2", [(1, 5)])
    figures, _ = checkers.rows(FIVE, [WHOLE, without], {ORDERS: 3})

    assert (figures["lost"], figures["diverged"]) == (5, 1)
    assert checkers.differing_tables([WHOLE, without]) == {"node2": [ORDERS]}


# --- what is judged ---------------------------------------------------------------------------------------------------


def test_the_verdict_names_the_table():
    """Of copies that differ, and of rows that are missing."""
    copies = [WHOLE, holding("node2", range(1, 6), 7, checksum=8)]
    result = judge(evidence(copies=copies, counted_tables={ORDERS: 3}), FIVE)
    (judged,) = (each for each in result.judgements if each.figure == "lost")

    assert judged.verdict is Verdict.REFUTED
    assert judged.reason == (
        "lost is 1, expected 0; node2 lacks 1 rows of lab.orders that its transactions inserted or deleted"
    )


DIVERGED = """
about: a test's
clients: {node1: 1}
steps: [{fault: cut, targets: [node3], seconds: 3}]
promises: [copies-equal, served-again]
"""


@pytest.mark.parametrize(("counted", "known"), [({ORDERS: 3}, True), ({}, False)])
def test_what_is_lost_is_known_only_where_the_difference_is_counted(counted, known):
    """Copies differ in a table: if its rows are counted they are in `lost`; else nobody knows what is."""
    copies = [WHOLE, holding("node2", range(1, 6), 7, checksum=8)]
    drill = parse_drill("test", GALERA, DIVERGED, KINDS, known=promises())
    result = judge(evidence(drill=drill, copies=copies, counted_tables=counted), FIVE)

    assert (not_proved(result) == []) is known
    assert any("node2 differs in lab.orders" in each.reason for each in result.judgements)


# --- what statements change -------------------------------------------------------------------------------------------


def changes(*statements):
    (transaction,) = transactions(GivenFile("load.sql", "".join(f"{each};\n" for each in statements)))
    return transaction.changes


@pytest.mark.parametrize(
    ("sql", "change"),
    [
        ("INSERT INTO orders (item) VALUES ({id:1..9})", ("lab.orders", 1)),
        ("insert ignore `order`(a) VALUES (1)", ("lab.order", 1)),
        ("/* a comment */ INSERT shop.orders SELECT 1", ("shop.orders", 1)),
        ("DELETE FROM `shop`.`cart` WHERE id = {id:1..9}", ("shop.cart", -1)),
        ("DELETE FROM cart LIMIT 1", ("lab.cart", -1)),
        ("DELETE FROM cart", ("lab.cart", -1)),
        ("REPLACE INTO orders (item) VALUES (1)", ("lab.orders", 0)),
        ("INSERT INTO orders (item) VALUES (1) ON DUPLICATE KEY UPDATE item = 2", ("lab.orders", 0)),
        ("INSERT INTO orders{n:1..4} (item) VALUES (1)", ("", 0)),
        ("DELETE a, b FROM a JOIN b USING (id)", ("", 0)),
        ("DELETE FROM a USING a JOIN b", ("", 0)),
        ("WITH old AS (SELECT 1 AS id) DELETE FROM cart WHERE id IN (SELECT id FROM old)", ("", 0)),
        ("WITH old AS (SELECT 1) SELECT * FROM old", None),
        ("UPDATE item SET stock = stock - 1", ("lab.item", None)),
        ("UPDATE LOW_PRIORITY IGNORE `shop`.`item` AS i SET i.stock = 1", ("shop.item", None)),
        ("UPDATE item i JOIN orders o USING (id) SET i.stock = 1", ("", None)),
        ("UPDATE item, orders SET stock = 1", ("", None)),
        ("SELECT 1", None),
    ],
)
def test_a_statement_tells_whose_rows_it_changes(sql, change):
    """By its text; where that does not say which table it is, any may be it."""
    assert changes(sql) == [change]


def test_a_table_whose_rows_come_and_go_has_no_direction():
    """Rows that are missing and rows that are left over would not be seen together."""
    assert directions(changes("INSERT INTO queue (a) VALUES (1)", "DELETE FROM queue LIMIT 1")) == {"lab.queue": 0}


# --- what is recorded -------------------------------------------------------------------------------------------------

LOAD = """INSERT INTO orders (item) VALUES ({id:1..9});
INSERT INTO lines (item) VALUES (1), (2);
DELETE FROM cart WHERE id = {id};
UPDATE item SET stock = 1;
"""


class Server:
    """A server with tables of one row, and the texts of what it runs by itself."""

    def __init__(self, *programs, tables=("cart", "item", "lines", "orders")):
        self.programs, self.known = programs, tables

    def tables(self, engine):
        assert engine == "InnoDB"
        return [f"`lab`.`{name}`" for name in self.known]

    def stored_programs(self):
        return [*self.programs]

    def value(self, _statement):
        return 1


@pytest.mark.parametrize(
    ("server", "counted"),
    [
        (Server(), {"lab.orders", "lab.lines", "lab.cart"}),
        (Server("DELETE FROM `lab`.`Cart` WHERE at < NOW()"), {"lab.orders", "lab.lines"}),
        (Server("INSERT INTO order_log VALUES (1)", "headlines"), {"lab.orders", "lab.lines", "lab.cart"}),
        (Server(tables=("cart", "item", "orders")), set()),
    ],
    ids=["nothing else", "a program deletes", "programs of other tables", "a view"],
)
def test_only_rows_that_nothing_else_changes_are_counted(server, counted):
    """A trigger, a routine, an event and a cascade change rows that no client was told of; so does a view."""
    found = Ledger({"node1": 1}, transactions=transactions(GivenFile("load.sql", LOAD))).counted_tables(server)

    assert found == dict.fromkeys(counted, 1)


def test_a_load_without_transactions_of_the_user_counts_no_table():
    """And asks the server nothing."""
    assert Ledger({"node1": 1}).counted_tables(None) == {}
    assert Ledger({"node1": 1}).uncounted_tables({}) == []


@pytest.mark.parametrize(
    ("load", "counted", "named"),
    [
        (LOAD, {"lab.orders", "lab.lines", "lab.cart"}, ["lab.item"]),
        (
            "INSERT INTO orders (a) VALUES (1);\n--\nUPDATE orders SET a = 2;",
            {"lab.orders"},
            ["lab.orders (its updates)"],
        ),
        ("DELETE a, b FROM a JOIN b USING (id);", set(), ["a table that a statement does not name alone"]),
        ("SELECT * FROM item;", set(), []),
    ],
    ids=["only updated", "also updated", "several tables", "only read"],
)
def test_tables_whose_lost_changes_are_not_counted_are_named(load, counted, named):
    """The report says of which tables the number of lost transactions is only that of the ledger's rows."""
    uncounted = Ledger({"node1": 1}, transactions=transactions(GivenFile("load.sql", load))).uncounted_tables(counted)
    result = judge(evidence(uncounted_tables=uncounted), FIVE)

    assert uncounted == named
    said = f"not counted   lost changes of {', '.join(named)} cannot be counted there"
    assert (said in text(summed_up(result))) is bool(named)


def test_a_client_records_by_how_many_rows_it_changed_each_table():
    """As the server reported them, between those of BEGIN and the ledger's own row."""
    lines = []

    class Client:
        def transact(self, statements):
            return TransactionAnswer(Outcome.ACKNOWLEDGED, affected=(0, 1, 2, 3, 4, 1, 0))

        def close(self):
            pass

    users = transactions(GivenFile("load.sql", LOAD))
    with Ledger({"node1": 1}, transactions=users).writing(lambda _: Client(), lines.append):
        while len(lines) < 2:
            pass

    attempt = parse(lines[:2]).attempts[0]
    assert attempt.id == IDS_PER_CLIENT
    assert attempt.rows == {"lab.orders": 1, "lab.lines": 2, "lab.cart": -3}


def test_the_ledger_of_other_drills_is_no_longer():
    """A line has what is not as usual."""
    line = encode(StatementEnd(1, 0.5, Outcome.ACKNOWLEDGED))

    assert line == b'{"event":"ended","id":1,"at":0.5,"outcome":"acknowledged"}\n'
