"""Does a node of a MySQL group bootstrap it only when no other node may?"""

import pytest
from replication_lab.world import catalogue

from tests.unit.bootstrap import asked, bash

SCRIPT = catalogue.COMPOSE / "group" / "start"


def told(node, *looks, history="a-name"):
    """Return the lines that a node logs until it has decided, and the decision as the last of them."""
    return bash(asked(SCRIPT, node, looks, history))


@pytest.mark.parametrize(
    ("node", "looks", "decision"),
    [
        ("node1", ["7/9/8", "7/online/8"], "join"),
        ("node2", ["7/9/8"], "lead"),
        ("node1", ["9/9/9"], "lead"),
        ("node3", ["9/9/9", "online/9/9"], "join"),
        ("node3", ["online//4"], "join"),
        ("node2", ["0/3/0"], "lead"),
        ("node2", ["/5/3", "6/5/3", "online/5/3"], "join"),
    ],
)
def test_the_most_advanced_leads_and_all_others_join(node, looks, decision):
    """By what all nodes say in one look; a silent node is waited for."""
    assert decision == told(node, *looks)[-1]


def test_one_look_shows_one_leader_whichever_node_looks():
    """Two nodes that see the same never both bootstrap, also where they are equally far."""
    for look in ("1/2/3", "3/3/1", "5/0/5"):
        found = [told(node, look, "online/online/online")[-1] for node in ("node1", "node2", "node3")]

        assert 1 == found.count("lead"), look


def test_the_first_node_begins_the_group_and_the_others_wait_for_it():
    """Without a history no node has data that another could lack."""
    assert "begin" == told("node1", "0/0/0", history="")[-1]
    assert "waits for node1 to begin" in bash(
        asked(SCRIPT, "node2", ["0/0/0"], history="").replace("log() {", 'log() { echo "$1"; exit;')
    )


def test_empty_directories_of_a_group_that_had_data_begin_nothing():
    """They would be a new history under the old name."""
    script = asked(SCRIPT, "node1", ["0/0/0"], "a-name")
    (line,) = bash(script.replace("log() {", 'log() { echo "$1"; exit;'))

    assert "all directories are empty, but the group a-name had transactions" in line


@pytest.mark.parametrize(
    ("sets", "count"),
    [
        ("", 0),
        ("6cdcad4c-e869-11f1-a5a9-0242ac160003:1-5", 5),
        ("6cdcad4c-e869-11f1-a5a9-0242ac160003:1-5:9,43114ffc-4330-4971-bbab-fc95ce261fd3:1000004-1000005", 8),
        ("6cdcad4c-e869-11f1-a5a9-0242ac160003:tag:1-3", 3),
    ],
)
def test_transactions_are_counted_over_all_intervals(sets, count):
    """Of each UUID and of each tag: members get numbers from blocks of their own."""
    assert [str(count)] == bash(f"source {SCRIPT}; echo '{sets}' | count_transactions")
