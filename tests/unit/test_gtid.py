"""Does arithmetic on GTIDs say what one server has and another has not, in both families' spelling?"""

import pytest
from replication_lab.model import gtid


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ("", "", {}),
        ("0-1-42", "0-1-42", {}),
        ("0-1-42", "0-1-40", {"0-1": [(41, 42)]}),
        ("0-1-42", "0-1-40,0-2-55", {"0-1": [(41, 42)]}),
        ("0-1-42,0-2-50", "0-1-42", {"0-2": [(1, 50)]}),
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
