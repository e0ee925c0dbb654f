"""Is a network between two sites that drops large packets found, and named with the direction that drops them?"""

from types import SimpleNamespace

import pytest
from replication_lab.world.docker import not_started
from replication_lab.world.packets import large_packets


class Across:
    """A link between two sites, whose network drops long answers (down), long questions (up), or everything."""

    def __init__(self, *drops, crosses=True):
        self.name, self.crosses_sites, self._drops = "source-replica", crosses, drops
        self.model = SimpleNamespace(server="source", dialler="replica")

    def greets(self, _seconds):
        return "all" not in self._drops

    def connect(self, _seconds):
        def drop(what):
            def send(size):
                assert size == 65536
                if what in self._drops:
                    raise OSError("timed out")

            return send

        return SimpleNamespace(long_answer=drop("down"), long_question=drop("up"), close=lambda: None)


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
    """Return what tells whether a lab is lost that starts on two sites, after these seconds, across such a link."""

    def lab(*drops, seconds=20.0):
        now = [100.0]
        monkeypatch.setattr(not_started, "has_lost_one", lambda _name: False)
        monkeypatch.setattr(not_started.clock, "timer", lambda: now[0])
        monkeypatch.setattr(not_started.sites, "of", lambda _name: {"source": "here", "replica": "there"})
        found = SimpleNamespace(name="lab-a", links=[Across(*drops)], refresh=lambda: None)
        is_lost = not_started.of_lab(found)
        now[0] += seconds
        return is_lost

    return lab


def test_a_start_that_takes_long_ends_if_large_packets_are_dropped(starting):
    """A replica would wait for minutes. A start of the usual length is not disturbed, and one is asked about once."""
    slow = starting("down")

    assert not starting("down", seconds=5)() and not starting()()
    assert slow() and not slow()
    assert not starting("all")()
