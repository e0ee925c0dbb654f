"""Does arithmetic on GTIDs say what one server has and another has not, in both families' spelling?"""

import pytest
from replication_lab.world.mysql import gtid


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ("", "", {}),
        ("0-1-42", "0-1-42", {}),
        ("0-1-42", "0-1-40", {"0-1": [(41, 42)]}),
        ("0-1-42", "0-1-40,0-2-55", {"0-1": [(41, 42)]}),
        # A failover: the second server's numbers go on where the first one's ended.
        ("0-1-42,0-2-50", "0-1-42", {"0-2": [(43, 50)]}),
        ("0-2-50", "0-1-42", {"0-2": [(43, 50)]}),
        # Back to the first: where it began before is hidden by where it ended last.
        ("0-1-60,0-2-50", "0-1-42", {"0-1": [(51, 60)], "0-2": [(43, 50)]}),
        ("0-1-60,0-2-50", "0-1-42,0-2-50", {"0-1": [(51, 60)]}),
        # Two sources at once gave the same numbers to different transactions.
        ("0-1-45", "0-1-42,0-2-50", {"0-1": [(43, 45)]}),
        ("0-1-42,0-2-50", "0-1-45", {"0-2": [(43, 50)]}),
        ("0-1-60,0-2-52", "0-1-60,0-2-50", {"0-2": [(51, 52)]}),
        # No server in both: never nothing.
        ("0-2-50", "0-1-55", {"0-2": [(1, 50)]}),
        # Each domain has numbers of its own.
        ("0-1-42,1-2-7", "0-1-42,1-1-5", {"1-2": [(6, 7)]}),
        ("u:1-9", "u:1-9", {}),
        ("u:1-9", "u:1-4:6", {"u": [(5, 5), (7, 9)]}),
        ("u:1-9:12", "v:1-9", {"u": [(1, 9), (12, 12)]}),
        ("u:1-3,\nv:7", "u:2", {"u": [(1, 1), (3, 3)], "v": [(7, 7)]}),
    ],
)
def test_what_is_beyond_is_what_only_the_first_has(mine, theirs, found):
    """Ranges in, ranges out."""
    assert gtid.beyond(mine, theirs) == found


def test_transactions_are_counted_and_named():
    """As the servers spell them."""
    assert gtid.words(gtid.beyond("0-1-42", "0-1-40")) == "2 transactions: 0-1-41 to 0-1-42"
    assert gtid.words(gtid.beyond("u:1-9", "u:1-8")) == "1 transaction: u:9"
    assert gtid.words({}) == "0 transactions"


@pytest.mark.parametrize(
    ("gtids", "many"),
    [("", 0), ("0-1-42", 42), ("0-1-5,1-2-7", 12), ("0-1-42,0-2-50", 50), ("3e1:1-5", 5), ("3e1:1-5:8,\n4f2:1", 7)],
)
def test_gtids_are_counted(gtids, many):
    """MariaDB's and MySQL's ways of writing them."""
    assert gtid.transactions_in(gtids) == many


def test_transactions_that_several_servers_have_are_counted_once():
    """Ranges that overlap, of one server and of several."""
    found = gtid.union({"0-1": [(6, 7)]}, {"0-1": [(7, 9)], "0-2": [(1, 1)]}, {})

    assert gtid.count(found) == 5
    assert gtid.union(found, {"0-1": [(8, 8)]}) == found


def test_two_positions_of_one_server_are_the_later_one():
    """What was received and what is committed, in one text."""
    assert gtid.beyond("0-1-7,0-1-5", "0-1-5") == gtid.beyond("0-1-5,0-1-7", "0-1-5") == {"0-1": [(6, 7)]}


@pytest.mark.parametrize("mine", ["U:1-20,U:1-20", "U:1-18,U:10-20", "U:1-20,U:16-18"])
def test_what_several_sets_have_counts_once(mine):
    """What a server has executed and what it has received are two sets, which overlap."""
    found = gtid.beyond(mine, "U:1-15")

    assert found == gtid.union(found, found) == {"U": [(16, 20)]}
    assert gtid.words(found) == "5 transactions: U:16 to U:20"


TAGGED = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("mine", "theirs", "lacking"),
    [
        (f"{TAGGED}:1-5:nightly:1-3:7", f"{TAGGED}:1-5", 4),
        (f"{TAGGED}:nightly:1-3:weekly:1-2", f"{TAGGED}:weekly:1-2", 3),
        (f"{TAGGED}:1-3", f"{TAGGED}:nightly:1-3", 3),
        (f"{TAGGED}:Nightly:1-3,\n{TAGGED}:_a:4", f"{TAGGED}:nightly:2, {TAGGED}:_a:1-4", 2),
        (f"{TAGGED}:1-5:nightly:1-3", f"{TAGGED}:nightly:1-3:1-5, {TAGGED}:1-5", 0),
    ],
)
def test_each_tag_numbers_its_own_transactions(mine, theirs, lacking):
    """UUID:1 and UUID:tag:1 are two transactions, and tags are equal in any case of their letters."""
    assert gtid.count(gtid.beyond(mine, theirs)) == lacking


def test_a_tagged_transaction_is_named_with_its_tag():
    """So that its UUID and number are not taken for those of a transaction without a tag."""
    assert gtid.words(gtid.beyond(f"{TAGGED}:nightly:4-5", "")) == (
        f"2 transactions: {TAGGED}:nightly:4 to {TAGGED}:nightly:5"
    )
