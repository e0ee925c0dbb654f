"""Are round trip and rate measured where no database answers, and is an echo that does not answer an error?"""

import socket
import subprocess
from contextlib import ExitStack, closing
from unittest import mock

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import catalogue
from replication_lab.world.packets import pinger
from replication_lab.world.packets.pinger import Echo, Pinger

from tests.fakes.link import FakeLink

# What answers in a guest and beside the arbiter.
FAR_END = str(catalogue.IMAGES / "vm" / "guest" / "far-end")
BYTES = 9_000_000
# More than the lines of requests and the answers of one byte.
FEW = 100


class CountedSocket:
    """One end of a connection, which counts the bytes that it sends and receives."""

    def __init__(self, end: socket.socket):
        self._end, self.sent, self.received = end, 0, 0

    def settimeout(self, seconds: float) -> None:
        self._end.settimeout(seconds)

    def sendall(self, content: bytes) -> None:
        self._end.sendall(content)
        self.sent += len(content)

    def send(self, content: bytes) -> int:
        done = self._end.send(content)
        self.sent += done
        return done

    def recv(self, size: int) -> bytes:
        found = self._end.recv(size)
        self.received += len(found)
        return found

    def close(self) -> None:
        self._end.close()


@pytest.fixture
def link(monkeypatch):
    """Yield links at whose far end a program answers: ``link(*PROGRAM)``."""
    with ExitStack() as ended:

        def start(*program: str) -> FakeLink:
            near, far = socket.socketpair()
            monkeypatch.setattr(pinger, "dialled", lambda _address: CountedSocket(near))
            with far:
                answering = subprocess.Popen(
                    [*(program or (FAR_END,))], stdin=far.fileno(), stdout=far.fileno(), stderr=subprocess.PIPE
                )
            ended.enter_context(answering)
            ended.callback(near.close)
            return FakeLink("node1-node2", answers=Echo("node2"))

        yield start


def test_a_round_trip_can_be_that_of_an_echo(link):
    """A machine without a server answers too; more than fits into any buffer comes back whole."""
    probe = RoundTrip(link())
    trips, rate = probe.pings(3), probe.kilobytes_per_second(BYTES // 1000)
    probe.close()

    assert len(trips) == 3 and all(0 < trip < 1000 for trip in trips)
    assert rate > 0


@pytest.mark.parametrize(
    ("transfer", "sent", "received"), [(Pinger.long_answer, 0, BYTES), (Pinger.long_question, BYTES, 0)]
)
def test_a_long_transfer_uses_one_direction(link, transfer, sent, received):
    """In the other direction a load may be waiting, and would slow the measurement down."""
    with closing(Pinger(link().far_end(), ("127.0.0.1", 0), 5)) as connection:
        transfer(connection, BYTES)
        near = connection._connection._socket

        assert 0 <= near.sent - sent < FEW
        assert 0 <= near.received - received < FEW
        assert connection.ping()


def test_an_echo_that_ends_gives_no_trip(link):
    """One answer when it connects, one ping, and no more."""
    probe = RoundTrip(link("bash", "-c", f"for n in 1 2; do read -r line; echo $line; done | {FAR_END}"))

    assert [True, False] == [probe.ping() is not None, probe.ping() is not None]
    probe.close()


@pytest.mark.parametrize("program", ["true", "cat"])
def test_an_echo_that_does_not_answer_is_an_error(link, program):
    """Toxiproxy accepts before the far end has; and bytes that come back as they were sent are no answer."""
    with pytest.raises(LabError, match="the echo service of node2 at"):
        RoundTrip(link(program))


def test_an_echo_that_does_not_answer_leaves_no_connection_open(link, monkeypatch):
    """A proof that a link is cut tries again and again."""
    close = mock.Mock()
    monkeypatch.setattr(CountedSocket, "close", close)
    with pytest.raises(LabError):
        RoundTrip(link("true"))

    close.assert_called_once()


def test_a_request_that_the_far_end_does_not_know_ends_it():
    """A misspelt request is no ping."""
    found = subprocess.run([FAR_END], input="pong\n", capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (2, "")
    assert "found 'pong'; expected ping, send or take" in found.stderr
