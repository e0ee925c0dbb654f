"""Does a node of a cluster bootstrap only when no other node may?"""

import subprocess

import pytest
from replication_lab.world import catalogue

from tests.unit.bootstrap import asked, bash

SCRIPT = catalogue.IMAGES / "mariadb" / "galera-start"


def told(node, *looks, history="u", lost=""):
    """Return the lines that a node logs until it has decided, and the decision as the last of them."""
    return bash(asked(SCRIPT, node, looks, history, lost))


@pytest.mark.parametrize(
    ("node", "looks", "decision"),
    [
        ("node1", ["u:7/u:9/u:8", "u:7/running/u:8"], "join"),
        ("node2", ["u:7/u:9/u:8"], "lead"),
        ("node1", ["u:9/u:9/u:9"], "lead"),
        ("node3", ["u:9/u:9/u:9", "running/u:9/u:9"], "join"),
        ("node3", ["running//u:4"], "join"),
        ("node2", ["empty/u:0/empty"], "lead"),
        ("node2", ["/u:5/u:3", "u:6/u:5/u:3", "running/u:5/u:3"], "join"),
    ],
)
def test_the_most_advanced_leads_and_all_others_join(node, looks, decision):
    """By what all nodes say in one look; one that runs ends the question; one that is silent is waited for."""
    assert decision == told(node, *looks)[-1]


def test_one_look_shows_one_leader_whichever_node_looks():
    """No two nodes that see the same may both lead, also where they are equally far."""
    for look in ("u:1/u:2/u:3", "u:3/u:3/u:1", "u:5/empty/u:5"):
        leaders = [
            node for node in ("node1", "node2", "node3") if told(node, look, "running/running/running")[-1] == "lead"
        ]

        assert 1 == len(leaders), look


def test_a_node_that_begins_to_run_is_not_left_out_of_the_comparison():
    """The decision is made of the look that it was compared in, so it either is compared or is joined."""
    assert SCRIPT.read_text().count('said_by "$member"') == 1


HEARD = """
source {script}
CLUSTER={cluster} LAB_NODE=node2
{said}
said_by node2
"""


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("say running", "running"),
        ("say u:3; say running", "running"),
        ("(say running)", ""),
        ("(say running); take_lock", ""),
        ("", ""),
    ],
    ids=["alive", "said anew", "killed", "killed, and started again", "silent"],
)
def test_a_killed_node_is_not_believed(tmp_path, said, heard):
    """Its answers become invalid with its end, also when another process replaces it soon: it cannot be joined."""
    script = HEARD.format(script=SCRIPT, cluster=tmp_path, said=said)
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert (heard, "") == (ran.stdout.strip(), ran.stderr)


def test_a_silent_node_is_waited_for_unless_it_is_lost():
    """The line names the node, and what to do when it will never come back."""
    lines = told("node1", "u:9/u:8/", "u:9/u:8/u:7")

    assert lines[0] == "waits for node3 to report its position (lost for good? touch /cluster/node3.lost)"
    assert lines[-1] == "lead" == told("node1", "u:9/u:8/", lost="node3")[-1]


def test_only_the_first_node_begins_a_history():
    """The others wait for it."""
    assert told("node1", "empty/empty/empty", history="")[-1] == "begin"
    assert told("node2", "empty/empty/empty", "running/empty/empty", history="") == ["waits for node1 to begin", "join"]


def test_a_history_whose_data_are_gone_is_not_begun_anew():
    """All empty, but there was something once: that is for a person to decide."""
    assert "but this cluster had a history (u)" in told("node1", "empty/empty/empty")[-1]


TURN = """
source {script}
LAB_NODE=node3 LAB_MEMBERS="node1 node2 node3" TICK=0
declare -A FROM=({serves})
is_alive() {{ [[ -v FROM[$1] ]]; }}
serves() {{ ((TICK >= FROM[$1])); }}
sleep() {{ TICK=$((TICK + 1)) SECONDS=$TICK; if ((TICK > 90)); then echo never; exit; fi; }}
log() {{ echo "$1"; }}
SECONDS=0
wait_for_turn
echo "joins after $TICK s"
"""


@pytest.mark.parametrize(
    ("serves", "joins"),
    [
        ("[node1]=0 [node2]=0", "joins after 0 s"),
        ("[node1]=1 [node2]=4", "joins after 4 s"),
        ("[node1]=1", "joins after 1 s"),
        ("[node1]=1 [node2]=70", "joins after 20 s"),
        ("[node1]=50 [node2]=70", "joins after 50 s"),
        ("[node1]=999 [node2]=999", "never"),
    ],
    ids=["at once", "in turn", "a dead node", "beside one that takes long", "a slow first node", "nobody to join"],
)
def test_a_node_joins_in_turn_and_only_where_another_one_serves(serves, joins):
    """Without one that serves, the server would give up after 30 seconds, and the cluster would lack a node."""
    assert bash(TURN.format(script=SCRIPT, serves=serves))[-1] == joins


# --- nodes on several Docker engines ----------------------------------------------------------------------------------

APART = catalogue.COMPOSE / "engines" / "galera-start-apart"
ASKED_APART = """
CLUSTER={cluster} LAB_NODE={node} LAB_MEMBERS="node1 node2 node3" DATADIR={cluster}/data PREPARED={cluster}/none
serves() {{ [[ " {serving} " == *" $1 "* ]]; }}
sleep() {{ exit; }}
log() {{ echo "$1"; }}
HERE={here}
decide
echo "$DECISION"
"""


def decided_apart(cluster, node, here="empty", serving=""):
    """Return the last line of a node that shares no volume with the others: its decision, or what it waits for."""
    # The script names the one beside it by its place in the container.
    script = APART.read_text().replace("source /usr/local/bin/galera-start", f"source {SCRIPT}")
    return bash(script + ASKED_APART.format(cluster=cluster, node=node, here=here, serving=serving))[-1]


def test_apart_the_first_begins_once_and_the_others_join_what_serves(tmp_path):
    """A node that has lost its data does not begin a second history while the others cannot be reached."""
    assert decided_apart(tmp_path, "node1") == "begin"
    assert decided_apart(tmp_path, "node2") == "waits for node1 to begin"
    assert decided_apart(tmp_path, "node2", serving="node1") == "join"
    (tmp_path / "history").write_text("u name\n")
    assert decided_apart(tmp_path, "node1").startswith("waits for node2 node3 to report its position")
    assert decided_apart(tmp_path, "node1", "u:7").startswith("waits for node2 node3 to report its position")
    assert decided_apart(tmp_path, "node1", "u:7", serving="node3") == "join"
