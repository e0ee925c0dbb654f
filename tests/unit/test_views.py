"""Does a user see what is up, and only errors that help?"""

import io

import pytest
from rich.console import Console

from harness import screens, views
from harness.errors import LabError, unknown_name
from harness.views import LabView, LinkView, NodeView
from harness.world import catalogue, clock
from harness.world.compose import Proof

NODES = [
    NodeView("source", "source", "127.0.0.1:1", "running", "healthy", "semi-sync ON"),
    NodeView("relay", "relay", "127.0.0.1:2", "running", "healthy", "replicates from toxiproxy:21002, 0 s behind"),
    NodeView("leaf", "replica", "", "exited", "", "leaf of lab-chain does not run"),
]
LINKS = [
    LinkView("source-relay", "source", "relay", ["wan-85ms"], True, 85.2),
    LinkView("relay-leaf", "relay", "leaf", [], False, None),
]
CHAIN = LabView("lab-chain", "chain", "mariadb", "11.8.6", NODES, LINKS, [Proof("a row arrives", "1 of 1", True)])


def shown(screen, *data) -> str:
    """What a screen prints into a pipe."""
    text = io.StringIO()
    screen(Console(file=text, width=140, highlight=False), *data)
    return text.getvalue()


def test_a_chain_is_shown_as_a_tree_from_its_source_down():
    """Every node under the link that feeds it, with toxics, round trip, and what stopped."""
    expected = """
lab-chain  chain, mariadb 11.8.6
└── source (source)  running, healthy  127.0.0.1:1
    semi-sync ON
    └── link source-relay  wan-85ms  round trip 85.2 ms
        └── relay (relay)  running, healthy  127.0.0.1:2
            replicates from toxiproxy:21002, 0 s behind
            └── link relay-leaf  no toxic  cut
                └── leaf (replica)  exited, no health
                    leaf of lab-chain does not run
"""

    assert [line.rstrip() for line in shown(screens.tree, CHAIN).splitlines()] == expected.strip().splitlines()


def test_the_status_lists_every_node_and_link():
    """One line each, whatever their state; without labs the command that starts one."""
    text = shown(screens.status, [CHAIN])

    assert all(name in text for name in ("source", "relay", "leaf", "source-relay", "relay-leaf", "cut"))
    assert "make lab-up" in shown(screens.status, [])


def test_a_silent_link_is_not_taken_for_a_cut_one():
    """Enabled, and nothing comes back."""
    silent = LinkView("source-replica", "source", "replica", ["black-hole"], True, None)
    lab = LabView("lab-a", "semisync", "mariadb", "11.8.6", [], [silent], [])

    assert "nothing comes back" in shown(screens.status, [lab])


def test_text_of_a_server_is_not_taken_for_colours():
    """Square brackets of an error message survive."""
    assert "[ERROR] x" in shown(screens.rows, [{"message": "[ERROR] x"}])
    assert "no rows" in shown(screens.rows, [])


def test_toxics_on_a_link_are_called_by_their_names():
    """The bodies of a toxic make its name; half of one, or a foreign one, is shown as it is."""
    wan = [body.name for body in catalogue.toxic("wan-85ms").bodies]

    assert views.called(wan) == ["wan-85ms"]
    assert views.called([*wan, "mine"]) == ["wan-85ms", "mine"]
    assert views.called(wan[:1]) == wan[:1]
    assert views.called([]) == []


def test_an_error_is_as_many_lines_as_it_has_parts():
    """Found alone, or with what was expected and what to type next."""
    assert str(LabError("it broke")) == "it broke"
    assert str(LabError("it broke", "it whole", "mend it")) == "it broke\nexpected: it whole\nnext: mend it"


def test_an_unknown_name_guesses_only_what_is_near():
    """A guess far off would mislead."""
    assert "did you mean async?" in unknown_name("topology", "asnc", ["async", "chain"]).found
    assert "did you mean" not in unknown_name("topology", "zzz", ["async", "chain"]).found
    assert unknown_name("topology", "x", []).expected == "one of (none)"


def test_waiting_returns_the_first_true_answer():
    """What the condition answered is what the waiter gets, at once where it is true already."""
    assert clock.wait_until(lambda: "ready", "it", 1) == "ready"


def test_waiting_in_vain_says_for_what(refused):
    """The time, what did not come, and where to look."""
    error = refused(clock.wait_until, lambda: False, "an answer", 0, hint="tail the log")

    assert (error.found, error.expected, error.next_step) == (
        "waited 0 s and an answer did not come",
        "an answer",
        "tail the log",
    )


@pytest.mark.parametrize("use", ["docker", "socket", "sleep", "root"])
def test_the_unit_tests_cannot_reach_the_world(use):
    """The guard of all these tests: whatever reaches out fails at once."""
    import socket
    import time

    import docker

    from harness.world import docker_engine

    reach = {
        "docker": docker.from_env,
        "socket": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        "sleep": lambda: time.sleep(0),
        "root": lambda: docker_engine.run_as_root(["true"]),
    }
    with pytest.raises(AssertionError, match="a unit test used"):
        reach[use]()
