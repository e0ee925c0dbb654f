"""Is the round trip of an echo measured, and an echo that does not answer an error?"""

import socket
import threading

import pytest
from replication_lab.model.errors import LabError
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import echo
from replication_lab.world.echo import Echo

from tests.fakes.link import FakeLink


@pytest.fixture
def link(monkeypatch):
    """Return a link whose far end echoes: ``link(most)`` bytes at the most, then it hangs up."""

    def serve(far, most):
        with far:
            while most > 0 and (found := far.recv(min(most, 1 << 16))):
                far.sendall(found)
                most -= len(found)

    def start(most=1 << 30):
        near, far = socket.socketpair()
        monkeypatch.setattr(echo, "dialled", lambda _address: near)
        threading.Thread(target=serve, args=(far, most), daemon=True).start()
        return FakeLink("node1-node2", answers=Echo("node2"))

    return start


def test_a_round_trip_can_be_that_of_an_echo(link):
    """A machine without a server answers too; more than fits into any buffer comes back whole."""
    probe = RoundTrip(link())
    trips, rate = probe.pings(3), probe.kilobytes_per_second(9_000)
    probe.close()

    assert len(trips) == 3 and all(0 < trip < 1000 for trip in trips)
    assert rate > 0


def test_an_echo_that_ends_gives_no_trip(link):
    """One byte when it connects, one ping, and no more."""
    probe = RoundTrip(link(most=2))

    assert [True, False] == [probe.ping() is not None, probe.ping() is not None]
    probe.close()


def test_an_echo_that_does_not_answer_is_an_error(link):
    """Toxiproxy accepts before the far end has."""
    with pytest.raises(LabError, match="the echo service of node2 at"):
        RoundTrip(link(most=0))
