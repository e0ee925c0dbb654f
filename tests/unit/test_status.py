"""Does a user see what is up, and only errors that help?"""

import io
import itertools
from dataclasses import fields
from types import SimpleNamespace

import pytest
from replication_lab import replication
from replication_lab.cli import output
from replication_lab.cli.console import Out
from replication_lab.lab import status
from replication_lab.lab.status import LabView, LinkView, NodeView
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.proof import Proof
from replication_lab.replication.kind import Nodes
from replication_lab.world import catalogue, clock
from replication_lab.world.docker import images
from replication_lab.world.mysql.galera import GaleraNode, GaleraStatus
from rich.console import Console

from tests.fakes.parts import LabOfNames, let_the_server_answer

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
    """Return what a screen prints into a pipe."""
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

    assert [line.rstrip() for line in shown(output.tree, CHAIN).splitlines()] == expected.strip().splitlines()


def test_nodes_that_follow_each_other_are_shown_too():
    """No node of a ring is the first one."""
    links = [*LINKS, LinkView("leaf-source", "leaf", "source", [], True, 0.2)]
    text = shown(output.tree, LabView("lab-ring", "chain", "mariadb", "11.8.6", NODES, links, []))

    assert [text.count(f"{node.name} ({node.role})") for node in NODES] == [1, 1, 1]
    assert "link leaf-source  no toxic  round trip 0.200 ms" in text


@pytest.mark.parametrize(
    ("topology", "links", "measure"),
    [("chain", 1, "run semisync_wan"), ("single", 0, "run temporary_tables"), ("group", 1, "drill group")],
)
def test_what_to_do_next_is_what_the_topology_has(topology, links, measure, monkeypatch):
    """The advice never breaks a link where there is none."""
    node = SimpleNamespace(bound=lambda _port: ("127.0.0.1", 1), site="")
    lab = SimpleNamespace(
        name="lab-x",
        topology=catalogue.topology(topology),
        application=lambda _name: ("lab", "secret"),
        node=lambda _name: node,
        endpoint=None,
    )
    monkeypatch.setattr(replication, "of", Nodes)
    text = shown(output.how_to_connect, lab, {link.name: "40ms+1mbit" for link in lab.topology.links})

    assert text.count("inject") == text.count(" 40ms+1mbit\n") == links and "{" not in text
    assert "./lab down --lab lab-x" in text and f"./lab {measure}\n" in text


def test_rows_can_be_printed_a_line_for_each_column():
    """As the servers' clients do for a wide row."""
    text = shown(lambda out: output.rows(out, [{"id": 1, "buyer": "[x]"}, {"id": 2, "buyer": None}], upright=True))

    assert text.splitlines() == ["row 1", "     id: 1", "  buyer: [x]", "row 2", "     id: 2", "  buyer: None"]


def test_engines_are_listed_with_what_they_lack_and_why(monkeypatch):
    """Version, source, features, whether the image is built; a reason once for all engines that share it."""
    monkeypatch.setattr(images, "state", lambda name: "built" if name == "mysql-5.6" else "not built")
    monkeypatch.setattr(images, "processor", lambda image: "arm64" if image == "replication-lab/mariadb" else "")
    monkeypatch.setattr(images, "is_present", lambda _image: False)
    known = status.engines()
    text = shown(output.engines, known)

    assert [each.image for each in known if each.name in ("mysql-5.6", "mysql-5.5")] == ["built", "not built"]
    processors = {each.name: each.processor for each in known}
    assert (processors["mariadb"], processors["mysql-8.0"], processors["mysql"]) == ("arm64", "amd64", "this machine's")
    assert known[0].tested[0].day in text and "no record kept" in text
    percona = next(each for each in known if each.name == "percona")
    assert (percona.origin, percona.image) == ("vendor", "not on this machine; pulled when first needed")
    assert "vendor: " in text and "local: Debian's" in text
    why = "in this version, semi-sync is a plugin"
    assert f"no semisync in mariadb-10.2, mariadb-10.1, mysql-5.7: {why}" in text.replace("\n", " ")


def test_engines_are_listed_without_docker(monkeypatch):
    """What is known of images is then nothing, and is said so."""

    def nobody(_name):
        raise LabError("the Docker engine does not answer", "a running engine")

    for ask in ("state", "processor", "is_present"):
        monkeypatch.setattr(images, ask, nobody)
    known = {each.name: each for each in status.engines()}

    assert {each.image for each in known.values()} == {"unknown: the Docker engine does not answer"}
    assert known["mysql-8.0"].processor == "amd64"


def test_a_cluster_is_shown_node_by_node_with_what_each_believes():
    """No node is above another; each with the links that it dials by."""
    nodes = [NodeView(name, "member", "127.0.0.1:1", "running", "healthy", "Synced") for name in ("node1", "node2")]
    links = [
        LinkView("node1-node2", "node1", "node2", ["wan-85ms"], True, 85.2),
        LinkView("node2-node1", "node2", "node1", [], True, 0.3),
    ]
    expected = """
lab-galera-2  galera-2, mariadb 11.8.6
├── node1 (member)  running, healthy  127.0.0.1:1
│   Synced
│   └── link node1-node2  wan-85ms  round trip 85.2 ms
└── node2 (member)  running, healthy  127.0.0.1:1
    Synced
    └── link node2-node1  no toxic  round trip 0.300 ms
"""
    text = shown(output.tree, LabView("lab-galera-2", "galera-2", "mariadb", "11.8.6", nodes, links, []))

    assert [line.rstrip() for line in text.splitlines()] == expected.strip().splitlines()


class Member:
    """A node of a cluster with a given view."""

    def __init__(self, **said):
        usual = dict.fromkeys((each.name for each in fields(GaleraStatus)), 0)
        usual |= {"ready": True, "state": "Synced", "primary": True, "size": 2, "cert_failures": 3}
        usual |= {"replication_ms": (80.0, 86.0, 99.0), "addresses": ("10.0.0.1", "10.0.0.9")}
        self._said = GaleraStatus(**usual | said)

    def galera(self):
        return self._said


@pytest.fixture(autouse=True)
def members_answer(monkeypatch):
    let_the_server_answer(monkeypatch, GaleraNode, status="galera")


class Clustered(LabOfNames):
    """A lab of two nodes, the second of which has an address without a server."""

    topology = catalogue.topology("galera-2")

    def __init__(self, member):
        self.member = member

    def server(self, _node):
        return self.member

    def addresses(self, node):
        return {"node1": {"10.0.0.1"}, "node2": {"10.0.0.2"}}[node]


def test_a_nodes_view_names_whom_it_sees():
    """By the lab's names where an address is known, with what it counted."""
    found = replication.of(Clustered(Member())).state("node1", "member")
    said, cluster = found.says, found.sees

    assert cluster == ["10.0.0.9", "node1"]
    assert said.startswith(
        "Synced, Primary, sees 10.0.0.9 node1; average group latency 86 ms; 3 certification failures"
    )


def test_a_node_without_a_majority_says_that_it_refuses():
    """Primary or not is what matters to a writer."""
    alone = Clustered(Member(primary=False, size=1, addresses=("10.0.0.1",)))
    said = replication.of(alone).state("node1", "member").says

    assert "non-Primary: refuses statements, sees node1" in said


def test_the_status_shows_every_lab():
    """A tree each; without labs the command that starts one."""
    other = LabView("lab-a", "async", "mariadb", "11.8.6", [], [], [])

    assert shown(output.labs, [CHAIN, other]) == f"{shown(output.tree, CHAIN)}\n{shown(output.tree, other)}"
    assert "./lab up" in shown(output.labs, [])


def test_options_of_the_user_are_shown_as_in_force_or_not():
    """The servers are asked now."""
    settings = [Proof("source has back_log=60", "60", True), Proof("leaf has back_log=60", "does not answer", False)]
    lab = LabView("lab-chain", "chain", "mariadb", "11.8.6", NODES, LINKS, [], settings)

    text = shown(output.tree, lab)
    assert "source has back_log=60  verified" in text
    assert "leaf has back_log=60" in text and "not in force: does not answer" in text


def test_a_silent_link_is_not_taken_for_a_cut_one():
    """Enabled, and no answer."""
    silent = LinkView("source-relay", "source", "relay", ["black-hole"], True, None)
    lab = LabView("lab-a", "semisync", "mariadb", "11.8.6", NODES[:2], [silent], [])

    assert "no reply" in shown(output.tree, lab)


def test_a_link_whose_toxiproxy_does_not_answer_is_neither_cut_nor_without_toxics():
    """As on a slow machine."""
    silent = LinkView("source-relay", "source", "relay", [], None, None)
    text = shown(output.tree, LabView("lab-a", "semisync", "mariadb", "11.8.6", NODES[:2], [silent], []))

    assert "link source-relay  its Toxiproxy does not answer" in text
    assert "cut" not in text and "no toxic" not in text


def test_text_of_a_server_is_not_taken_for_colours():
    """Square brackets of an error message survive."""
    assert "[ERROR] x" in shown(output.rows, [{"message": "[ERROR] x"}])
    assert "no rows" in shown(output.rows, [])


@pytest.mark.parametrize("width", [40, 80, 140])
def test_rows_that_do_not_fit_are_printed_as_lines(width):
    """The state of a replica has sixty columns: as a table it would be only dots."""
    text = io.StringIO()
    row = {f"Replica_Column_{number}": f"value of {number}" for number in range(60)}
    output.rows(Out(file=text, width=width, highlight=False), [row])
    said = " ".join(text.getvalue().split())

    assert "…" not in said and all(f"{name} {value}" in said for name, value in row.items())


def test_toxics_on_a_link_are_called_by_their_names():
    """The bodies of a toxic make its name; half of one, or a foreign one, is shown as it is."""
    wan = [body.name for body in catalogue.toxic("wan-85ms").bodies]

    assert status.called(wan) == ["wan-85ms"]
    assert status.called([*wan, "mine"]) == ["wan-85ms", "mine"]
    assert status.called(wan[:1]) == wan[:1]
    assert status.called([]) == []


def test_an_error_is_as_many_lines_as_it_has_parts():
    """Found alone, or with what was expected and what to type next."""
    assert str(LabError("it broke")) == "it broke"
    assert str(LabError("it broke", "it whole", "mend it")) == "it broke\nexpected: it whole\nnext: mend it"


def test_an_unknown_name_guesses_only_what_is_near():
    """A guess far off would mislead."""
    assert "did you mean async?" in unknown_name("topology", "asnc", ["async", "chain"]).found
    assert "did you mean async?" in unknown_name("topology", "asy", ["async", "chain"]).found
    assert "did you mean source-replica?" in unknown_name("link", "replica-source", ["source-replica"]).found
    for far in ("zzz", "nothing", "a"):
        assert "did you mean" not in unknown_name("topology", far, ["async", "chain"]).found
    assert unknown_name("topology", "x", []).expected == "one of (none)"


def test_waiting_returns_the_first_true_answer():
    """What the condition answered is what the waiter gets, at once where it is true already."""
    assert clock.wait_until(lambda: "ready", "it", 1) == "ready"


def test_what_moves_is_waited_for_however_long_it_takes(monkeypatch):
    """Many minutes of progress are no standstill."""
    seconds = iter(range(0, 1000, 100))
    monkeypatch.setattr(clock, "timer", lambda: next(seconds))
    monkeypatch.setattr(clock.time, "sleep", lambda _seconds: None)
    percents = iter(range(0, 100, 25))

    def look():
        percent = next(percents)
        return percent == 75 and "done", f"{percent} %"

    assert "done" == clock.wait_while_moving(look, "the end", every=1)


def test_going_round_in_circles_is_no_progress(monkeypatch, refused):
    """A start that fails and begins again without end is given up, with its last state."""
    seconds, said = iter(range(0, 10_000, 50)), itertools.cycle(["it starts", "it failed"])
    monkeypatch.setattr(clock, "timer", lambda: next(seconds))
    monkeypatch.setattr(clock.time, "sleep", lambda _seconds: None)
    error = refused(clock.wait_while_moving, lambda: (False, next(said)), "the service", every=1)

    assert error.found.startswith("no progress for 180 s; last state: it")


def test_waiting_in_vain_says_for_what(refused):
    """The time, what did not come, and where to look."""
    error = refused(clock.wait_until, lambda: False, "an answer", 0, hint="tail the log")

    assert (error.found, error.expected, error.next_step) == (
        "timed out after 0 s waiting for an answer",
        "an answer",
        "tail the log",
    )


@pytest.mark.parametrize("use", ["docker", "socket", "sleep", "root"])
def test_the_unit_tests_cannot_reach_the_world(use):
    """The guard of all these tests: whatever reaches out fails at once."""
    import socket
    import time

    from replication_lab.world.docker import engine
    from replication_lab.world.docker.client import EngineClient

    reach = {
        "docker": EngineClient.from_env,
        "socket": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        "sleep": lambda: time.sleep(0),
        "root": lambda: engine.run_as_root(["true"]),
    }
    with pytest.raises(AssertionError, match="a unit test used"):
        reach[use]()
