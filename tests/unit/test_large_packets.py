"""Is a network between two sites that drops large packets found, and named with the direction that drops them?"""

from itertools import chain, repeat
from types import SimpleNamespace

import pytest
from pymysql.err import OperationalError
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import compose, not_started
from replication_lab.world.packets import large_packets, pinger


class Across:
    """A link between two sites, whose network drops long answers (down), long questions (up), or everything."""

    def __init__(self, *drops, crosses=True):
        self.name, self.crosses_sites, self._drops = "source-replica", crosses, drops
        self.model = SimpleNamespace(server="source", dialler="replica")

    def greets(self, _seconds):
        return "all" not in self._drops

    def passes(self, size, _seconds, *, is_question):
        assert size == 65536
        return ("up" if is_question else "down") not in self._drops


def test_a_long_answer_and_a_long_question_prove_that_large_packets_cross():
    """Only links between sites are asked."""
    [proof] = large_packets.prove([Across(), Across("all", crosses=False)])

    assert proof.ok and proof.found == "64 KiB arrived both ways"
    assert large_packets.refusal([Across()]) is None


@pytest.mark.parametrize(
    ("drops", "found"),
    [
        (["down"], "short ones arrive, 64 KiB from source to replica do not"),
        (["up"], "short ones arrive, 64 KiB from replica to source do not"),
        (["down", "up"], "short ones arrive, 64 KiB from source to replica and from replica to source do not"),
    ],
)
def test_a_network_that_drops_large_packets_is_named_with_the_direction(drops, found):
    """One direction can be dropped without the other."""
    error = large_packets.refusal([Across(*drops)])

    assert error.found == f"packets of full size cross link source-replica: {found}"
    assert error.next_step.startswith("ping -M do -s 1472")


def test_a_far_end_that_sends_nothing_at_all_is_not_blamed_on_large_packets(refused):
    """It does not run, or nothing leads there."""
    assert refused(large_packets.prove, [Across("all")]).found == "link source-replica does not answer"


@pytest.fixture
def starting(monkeypatch):
    """Start a lab on two sites, which is up after these seconds; return how often it has asked for large packets."""

    def start(*drops, seconds=20.0):
        times, healthy, asked = chain([100.0], repeat(100.0 + seconds)), iter([False, False, True]), []
        monkeypatch.setattr(compose.clock, "timer", lambda: next(times))
        monkeypatch.setattr(compose, "LOOK_CLOSELY_SECONDS", 0)
        monkeypatch.setattr(compose.Project, "_call", lambda *_: None)
        monkeypatch.setattr(compose.Project, "_is_healthy", lambda *_: next(healthy))
        monkeypatch.setattr(not_started, "has_lost_one", lambda *_: False)
        monkeypatch.setattr(compose.sites, "of", lambda _name: {"source": "here", "replica": "there"})
        found = SimpleNamespace(name="lab-a", links=[Across(*drops)], refresh=lambda: asked.append("links"))
        compose.Project(found, ()).up()
        return len(asked)

    return start


def test_a_start_that_takes_long_ends_if_large_packets_are_dropped(starting, refused):
    """A replica would wait for minutes. A start of the usual length is not disturbed, and one is asked about once."""
    assert refused(starting, "down").found.startswith("packets of full size cross link source-replica")
    assert starting("down", seconds=5) == 0
    assert starting() == starting("all") == 1


class FarEnd:
    """A server whose connections end what they are sent with an error."""

    name = "replica"

    def __init__(self, error):
        self._error = error

    def connect(self, address, answer_seconds):
        def fail(*_):
            raise self._error

        return SimpleNamespace(cursor=fail, close=lambda: None)


def test_only_bytes_that_do_not_come_in_time_are_lost(refused):
    """A server that is not ready answers with an error, which crossed the network."""
    late = OperationalError(2013, "Lost connection to MySQL server during query (timed out)")
    late.__context__ = TimeoutError()
    not_ready = FarEnd(OperationalError(1047, "WSREP has not yet prepared node for application use"))

    assert not pinger.passes(FarEnd(late), ("10.1.0.2", 3306), 3, 65536, True)
    for is_question in (True, False):
        error = refused(pinger.passes, not_ready, ("10.1.0.2", 3306), 3, 65536, is_question)
        assert "1047" in error.found


def test_a_connection_that_is_not_made_in_time_is_lost_too(refused):
    """The certificate in a server's handshake is larger than a packet; a refused password is no lost packet."""

    def reached(cause):
        def connect(address, answer_seconds):
            raise LabError("replica does not answer", "a connection") from cause

        return pinger.passes(SimpleNamespace(name="replica", connect=connect), ("10.1.0.2", 3306), 3, 65536, False)

    late = OperationalError(2003, "Can't connect")
    late.__context__ = TimeoutError()

    assert not reached(late) and not reached(TimeoutError())
    assert refused(reached, OperationalError(1045, "Access denied")).found == "replica does not answer"
