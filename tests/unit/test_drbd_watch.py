"""Is a load on two machines doubted when their disk was not replicated as the case asked?"""

from types import SimpleNamespace

import pytest
from replication_lab.replication.drbd_state import ReplicatedDiskWatch
from replication_lab.world.machines.drbd import Peer

from tests.fakes.drbd_pair import CONNECTED, STAND_ALONE, Pair

SECONDARY = CONNECTED.replace("Primary/Secondary", "Secondary/Primary")
PROTOCOL_A = CONNECTED.replace(" C r", " A r"), SECONDARY.replace(" C r", " A r")


class Serving(Pair):
    """The pair, with a server that acknowledges a commit after its write, or before."""

    flush = 1

    def server(self, _name):
        return SimpleNamespace(value=lambda _sql: self.flush)


def doubted(pair, fastest=85.4, protocol="C", **then):
    """Return what is doubted of a load after which the machines report `then`; their link has a round trip of 85 ms."""
    watch = ReplicatedDiskWatch([Peer(pair, node) for node in ("node1", "node2")], protocol, 85)
    pair.texts |= then
    return [proof.what for proof in watch.proofs(5, fastest) if not proof.ok]


def pair():
    return Serving(node1=CONNECTED, node2=SECONDARY)


def test_a_load_on_a_connected_disk_is_not_doubted():
    """Both machines report the protocol of the case, and no commit was faster than the link."""
    assert doubted(pair()) == []


@pytest.mark.parametrize(
    ("then", "fastest", "what"),
    [
        ({"node1": STAND_ALONE}, 85.4, "the peer is connected"),
        ({"node1": SECONDARY, "node2": CONNECTED}, 85.4, "node1 was primary before and after the load"),
        (dict(zip(("node1", "node2"), PROTOCOL_A, strict=True)), 85.4, "both machines use the protocol of the case"),
        ({}, 1.2, "no commit was answered sooner than a round trip"),
    ],
)
def test_a_load_is_doubted_when_the_disk_was_not_as_the_case_asked(then, fastest, what):
    """The peer left, the roles changed, the protocol changed, or a commit did not wait."""
    assert what in doubted(pair(), fastest, **then)


def test_a_commit_that_waits_for_no_peer_may_be_fast():
    """Under protocol A, or with a server that acknowledges before it writes."""
    relaxed = pair()
    relaxed.flush = 2

    assert doubted(relaxed, fastest=0.4) == []
    assert doubted(Serving(node1=PROTOCOL_A[0], node2=PROTOCOL_A[1]), fastest=0.4, protocol="A") == []
