"""Does the checker find each kind of anomaly that is planted in a history, and none in a serial one?"""

from random import Random

import pytest
from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.anomalies import KINDS, anomalies, counted, example
from replication_lab.model.isolation.transactions import Op, SeenTransaction

ACKNOWLEDGED, FAILED, UNKNOWN = Outcome


def transaction(text, at=(0.0, 100.0), outcome=ACKNOWLEDGED, client=1, ops=()):
    """Return a transaction of operations such as `r1=`, `r1=5`, `r2=3,5`, `a1=5`, `w1=7`, and of `ops`."""
    told = (*map(operation, text.split()), *ops)
    return SeenTransaction(client=client, node="node1", began=at[0], ended=at[1], outcome=outcome, ops=told)


def operation(text):
    key, _, value = text[1:].partition("=")
    elements = tuple(int(each) for each in value.split(",") if each)
    last = elements[-1] if elements else None
    if text[0] != "r":
        return Op("append" if text[0] == "a" else "write", int(key), last)
    # Rows from 10 on are lists.
    return Op("read", int(key), last, elements if int(key) >= 10 else None)


def history(*texts):
    return [transaction(text, client=number) for number, text in enumerate(texts, 1)]


def found_in(transactions, final=None):
    return {kind for kind, many in counted(anomalies(transactions, final)).items() if many}


PLANTED = {
    "dirty_reads": [transaction("a10=1", outcome=FAILED), transaction("r10=1")],
    "intermediate_reads": history("w1=1 w1=2", "r1=1"),
    "nonrepeatable_reads": history("w1=1", "r1= r1=1"),
    "own_writes_missed": history("w1=1", "w1=2 r1=1"),
    "lost_updates": history("r1= w1=1", "r1= w1=2"),
    "write_cycles": history("a10=1 a11=2", "a10=3 a11=4", "r10=1,3", "r11=4,2"),
    "read_cycles": history("a10=1 r11=2", "a11=2 r10=1"),
    "fractured_reads": history("r1= w1=1 r2= w2=2", "r1=1 r2="),
    "read_skews": history("r10= a10=1", "r10=1 a11=2", "r11=2 r10="),
    "write_skews": history("r10= a11=1", "r11= a10=2", "r10=2", "r11=1"),
    "stale_reads": [transaction("r1= w1=1", (0.0, 1.0)), transaction("r1=", (2.0, 3.0))],
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_anomaly_is_found(kind):
    """And nothing that it is not, besides what it implies."""
    implied = {"intermediate_reads": {"fractured_reads"}, "nonrepeatable_reads": {"fractured_reads"}}

    found = found_in(PLANTED[kind])

    assert kind in found
    assert found <= {kind} | implied.get(kind, set())


def test_a_write_that_is_not_in_the_list_at_the_end_vanished():
    """So did one that a longer list does not begin with."""
    assert found_in(history("a10=1", "a10=2"), {10: (2,)}) == {"vanished_writes"}
    assert "vanished_writes" in found_in(history("a10=1", "a10=2", "a10=3", "r10=1,3", "r10=2,3,1"))


def test_each_kind_has_a_planted_example():
    """A new kind needs one."""
    assert KINDS.keys() == {*PLANTED, "vanished_writes"}


def test_appends_after_the_same_read_are_a_lost_update():
    """The list has both, but each was decided without the other: P4 of snapshot isolation."""
    assert found_in(history("r10= a10=1", "r10= a10=2", "r10=1,2")) == {"lost_updates"}


@pytest.mark.parametrize(("outcome", "expected"), [(UNKNOWN, set()), (FAILED, {"dirty_reads"})])
def test_a_transaction_without_an_answer_counts_as_committed_if_it_was_read(outcome, expected):
    """One that was rolled back and read was dirty."""
    assert found_in([transaction("a10=1", outcome=outcome), transaction("r10=1")]) == expected


def test_what_a_client_was_not_told_before_is_not_stale():
    """A read that overlaps a write may show the version before or after it."""
    overlapping = [transaction("r1= w1=1", (0.0, 2.5)), transaction("r1=", (2.0, 3.0))]

    assert found_in(overlapping) == set()


def test_a_version_is_stale_if_a_later_one_was_answered_for():
    """Though the answer to the writer of the next one is still on its way."""
    late = [
        transaction("r10= a10=1", (0.0, 9.0)),
        transaction("r10=1 a10=2", (0.5, 1.0)),
        transaction("r10=", (2.0, 3.0)),
        transaction("r10=1,2", (8.0, 9.0)),
    ]

    assert "stale_reads" in found_in(late)


def test_a_lost_update_is_told_as_transactions():
    """With the literature's name, the clients, the node, and only the row that matters."""
    transactions = [
        transaction("r2= r1= w1=7", (0.5, 1.0), client=3),
        transaction("r1= w1=8", (0.6, 1.1), client=4),
    ]
    (first, *_) = anomalies(transactions)

    assert example(first, transactions) == (
        "transactions read the same version of a row and all of them overwrote it (P4): "
        "client 3 on node1, 0.500 to 1.000 s, read row 1 as the first version, wrote 7 to row 1; "
        "client 4 on node1, 0.600 to 1.100 s, read row 1 as the first version, wrote 8 to row 1"
    )


def serial(seed):
    """Return a history in which each transaction begins after the one before has ended, on lists and values."""
    dice, number = Random(seed), 0
    lists, values = {key: () for key in (10, 11, 12)}, dict.fromkeys((1, 2, 3))
    transactions = []
    for at in range(dice.randint(1, 30)):
        ops, failed = [], dice.random() < 0.1
        kept = dict(lists), dict(values)
        for _ in range(dice.randint(1, 4)):
            number += 1
            key = dice.choice((*lists, *values))
            read = (
                Op("read", key, (lists[key] or (None,))[-1], lists[key])
                if key in lists
                else Op("read", key, values[key])
            )
            if dice.random() < 0.5:
                ops.append(read)
            elif key in lists:
                ops.append(Op("append", key, number))
                lists[key] += (number,)
            else:
                ops += [read, Op("write", key, number)]
                values[key] = number
        if failed:
            lists, values = kept
        outcome = FAILED if failed else ACKNOWLEDGED
        transactions.append(
            SeenTransaction(
                client=dice.randrange(5), node="n", began=at, ended=at + 0.5, outcome=outcome, ops=tuple(ops)
            )
        )
    return transactions, lists


def test_a_thousand_serial_histories_have_no_anomaly():
    """Transactions that were rolled back included."""
    assert [seed for seed in range(1000) if found_in(*serial(seed))] == []
