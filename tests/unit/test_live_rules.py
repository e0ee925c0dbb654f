"""Does the live view conclude from the states of a lab what is so?"""

import pytest
from replication_lab import replication
from replication_lab.live.explained import Now, explain
from replication_lab.live.sampler import latency_of, law, waited
from replication_lab.model.live.view import Latency, Level, Span
from replication_lab.replication.kind import Nodes
from replication_lab.world import catalogue

CUT = Span(id=1, begin=0, label="source-replica cut", kind="link", target="source-replica")
KILLED = Span(id=2, begin=0, label="kill replica", kind="node", target="replica", seen=True)


def kind(topology):
    """Return the kind of replication of a topology."""
    return replication.kind_of(catalogue.topology(topology))


@pytest.mark.parametrize("topology", sorted(catalogue.topologies()))
def test_every_kind_can_be_shown_and_asked(topology):
    """A kind without one of these would fail only when a lab of it is already up."""
    found = kind(topology)

    assert found.arranged is not Nodes.arranged and found.view is not Nodes.view
    assert found.explains or not catalogue.topology(topology).links


@pytest.mark.parametrize(
    ("topology", "state", "level"),
    [
        ("semisync", "semi-sync ON", Level.GOOD),
        ("semisync", "semi-sync OFF", Level.WARN),
        ("async", "replicating", Level.GOOD),
        ("async", "not connected", Level.BAD),
        ("galera", "Primary", Level.GOOD),
        ("galera", "non-Primary", Level.BAD),
        ("group", "SECONDARY", Level.GOOD),
        ("group", "RECOVERING", Level.WARN),
        ("group", "no majority", Level.BAD),
        ("drbd", "Primary, Connected", Level.GOOD),
        ("drbd", "Primary, WFConnection", Level.WARN),
        ("drbd-ha", "Secondary, SyncTarget", Level.WARN),
        ("drbd", "Secondary, StandAlone", Level.BAD),
        ("async", "PRIMARY", Level.BAD),
        ("single", "does not answer", Level.BAD),
        ("single", "", Level.UNKNOWN),
    ],
)
def test_each_state_has_a_level(topology, state, level):
    """A state that its kind does not know is bad, never good."""
    assert kind(topology).level_of(state) is level


@pytest.mark.parametrize(
    ("topology", "states", "now", "then"),
    [
        ("galera", {"node1": "does not answer", "node2": "Primary", "node3": "Primary"}, "node1", "node2"),
        ("galera", {"node1": "Primary", "node2": "Primary"}, "node2", "node2"),
        ("galera", {"node1": "non-Primary", "node2": "does not answer"}, "node1", "node1"),
        ("group", {"node1": "SECONDARY", "node2": "PRIMARY"}, "node1", "node2"),
        ("drbd", {"node1": "Secondary, Connected", "node2": "Primary, Connected"}, "node1", "node2"),
        ("semisync", {"source": "does not answer", "replica": "replicating"}, "source", "source"),
    ],
)
def test_clients_follow_the_node_that_accepts_writes(topology, states, now, then):
    """A replica is never written to before it is promoted."""
    assert kind(topology).written_by(states, now) == then


@pytest.mark.parametrize(
    ("topology", "state", "trips", "waits"),
    [
        ("semisync", "semi-sync ON", [85.0, 10.0], 10.0),
        ("semisync", "semi-sync OFF", [85.0], None),
        ("semisync", "semi-sync ON", [None], None),
        ("galera", "Primary", [85.0, 10.0], 85.0),
        ("galera", "non-Primary", [85.0, 10.0], None),
        ("group", "PRIMARY", [85.0, None], 85.0),
        ("group", "PRIMARY", [85.0, 10.0], 10.0),
        ("group", "SECONDARY", [85.0, 10.0], None),
        ("drbd", "Primary, Connected", [85.0], 85.0),
        ("drbd", "Secondary, Connected", [85.0], None),
        ("async", "serving", [85.0], None),
    ],
)
def test_a_commit_waits_for_the_link_that_its_replication_waits_for(topology, state, trips, waits):
    """The nearest replica, the farthest node, a majority, the peer; or no link."""
    found = kind(topology)

    assert (waited(found.waits_on, trips, 3) if found.makes_commits_wait(state) else None) == waits


def test_a_majority_that_does_not_answer_gives_no_round_trip():
    """Of five nodes the second nearest makes three."""
    assert waited("majority", [10.0, 20.0, 30.0, 85.0], 5) == 20.0
    assert waited("majority", [10.0, None, None, None], 5) is None


@pytest.mark.parametrize(
    ("clients", "rate", "trip", "most"), [(4, 0, 200, 20), (4, 10, 200, 10), (4, 0, None, None), (0, 0, 85, None)]
)
def test_the_law_is_clients_through_round_trip(clients, rate, trip, most):
    """And at most the rate of the load."""
    assert law(clients, rate, trip) == most


def test_percentiles_are_those_of_the_reports():
    """With few commits the 99th is almost the slowest one, and n says so."""
    assert latency_of([3.0, 1.0, 2.0]) == Latency(2.0, 2.9, 2.98, 3)
    assert latency_of(list(map(float, range(101)))) == Latency(50.0, 95.0, 99.0, 101)
    assert latency_of([]) is None


def now(**changes):
    """Return a semi-synchronous source with 4 clients and a round trip of 200 ms, with changes."""
    usual = {
        "node": "source",
        "state": "semi-sync ON",
        "clients": 4,
        "rate": 400.0,
        "commits": 19.0,
        "waits": 200.0,
        "law": 20.0,
        "timeout_s": 10.0,
    }
    return Now(**{**usual, **changes})


@pytest.mark.parametrize(
    ("seen", "sentences"),
    [
        ({}, ["acknowledged row is on two nodes", "at most 4 / 200 ms = 20 times a second. Measured: 19"]),
        ({"commits": 4.0}, ["on two nodes", "Measured: 4, so commits wait for something besides the link"]),
        ({"law": 400.0, "waits": 0.3}, ["on two nodes", "limit of 400/s is below"]),
        (
            {"state": "semi-sync OFF", "since": 3, "law": None, "acting": [CUT]},
            ["fell back to asynchronous 3 s ago after waiting 10 s (source-replica cut)", "19 times a second"],
        ),
        (
            {"silent": 4, "commits": 0.0, "law": None},
            [
                "have waited for 4 s for the acknowledgement of a replica; once the first of them has waited 10 s",
                "committed nothing",
            ],
        ),
        (
            {"others": [("replica", "does not answer")], "nodes": 2, "acting": [KILLED], "law": None},
            ["replica: does not answer (kill replica): no replica can acknowledge a commit of source; 10 s", "19"],
        ),
        (
            {"others": [("replica2", "does not answer")], "nodes": 3},
            ["once one of the other replicas has acknowledged it; replica2: does not answer.", "Measured: 19"],
        ),
        ({"state": "serving", "law": None}, ["No replica acknowledges: one copy only", "19 times"]),
        (
            {"state": "does not answer", "commits": 0.0, "errors": 40.0, "law": None},
            ["source does not answer", "40 errors"],
        ),
        ({"topology": "async", "state": "serving", "law": None}, ["had all rows", "19 times"]),
        (
            {"topology": "async", "state": "serving", "law": None, "lag": [("replica", None), ("relay", 0)]},
            ["lack is unknown", "19 times"],
        ),
        (
            {"topology": "async", "state": "serving", "law": None, "lag": [("replica", 12)]},
            ["replica lacks (12) are lost if source is lost now", "19 times"],
        ),
        (
            {"topology": "async", "state": "serving", "law": None, "others": [("replica", "not connected")]},
            ["replica: not connected", "19 times"],
        ),
        (
            {"topology": "galera", "state": "Primary"},
            ["every node of the cluster has received it", "Measured: 19"],
        ),
        (
            {"topology": "galera", "state": "Primary", "others": [("node3", "does not answer")]},
            ["without some of its nodes (node3: does not answer)", "Measured: 19"],
        ),
        (
            {"topology": "group", "state": "PRIMARY", "silent": 6, "commits": 0.0, "law": None},
            ["waits until it has excluded", "committed nothing"],
        ),
        ({"topology": "group", "state": "PRIMARY"}, ["a majority of the group", "Measured: 19"]),
        ({"topology": "drbd", "state": "Primary, Connected"}, ["on the disks of both machines", "Measured: 19"]),
        ({"topology": "drbd", "state": "Primary, WFConnection", "law": None}, ["its own disk only", "19 times"]),
        ({"topology": "drbd", "state": "Primary, SyncSource"}, ["what it missed (Primary, SyncSource)", "19"]),
        (
            {"topology": "drbd", "state": "Primary, Connected", "others": [("node2", "does not answer")]},
            ["node2: does not answer: commits wait until DRBD on source has noticed", "19"],
        ),
        (
            {"topology": "drbd", "state": "Primary, Connected", "silent": 3, "commits": 0.0, "law": None},
            ["for 3 s for the peer's disk", "committed nothing"],
        ),
        ({"topology": "single", "state": "serving", "law": None}, ["source is serving", "of at most 400"]),
        ({"clients": 0}, ["on two nodes", "only watched"]),
        ({"commits": None}, ["on two nodes", "The clients are starting"]),
        ({"state": "", "commits": None}, ["The clients are starting"]),
    ],
)
def test_what_happens_now_is_explained(seen, sentences):
    """A sentence about the state, and one about the rate."""
    explains = kind(seen.get("topology", "semisync")).explains
    found = explain(now(**{name: value for name, value in seen.items() if name != "topology"}), explains)

    assert len(found) == len(sentences)
    assert all(part in sentence for part, sentence in zip(sentences, found, strict=True)), found
