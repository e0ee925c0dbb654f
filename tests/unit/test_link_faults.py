"""Is a link that works again told from one that does not, also on a machine that is starved for a while?"""

import pytest
from replication_lab.faults import _links
from replication_lab.faults._links import REPEATS, Links

BEFORE = [90.0, 85.0, 88.0]
SLOW = [110.0, 109.0, 120.0]


class Probe:
    """Pings that take as long as was told, call by call; the last ones are repeated."""

    def __init__(self, calls):
        self.calls = iter(calls)
        self.made = 0
        self.last = []

    def pings(self):
        self.made += 1
        self.last = next(self.calls, self.last)
        return self.last

    def close(self):
        pass


@pytest.fixture
def recovered(monkeypatch):
    """Return the proof of a link that had BEFORE and now has these pings, and how often they were made."""

    def judge(*calls):
        after = Probe(calls)
        probes = iter([Probe([BEFORE]), after])
        monkeypatch.setattr(_links.Links, "probe", lambda *_: next(probes))
        (proof,) = Links(None, ["a-b"]).as_before()
        return proof, after.made

    return judge


def test_a_link_is_as_before_once_a_round_trip_is(recovered):
    """A busy machine lengthens round trips and never shortens one, so one that is as before suffices."""
    proof, made = recovered(SLOW, SLOW, [130.0, 86.0])

    assert (proof.ok, proof.found, made) == (True, "86.0 ms", 3)
    assert recovered(BEFORE)[1] == 1


def test_a_link_that_stays_slower_has_not_recovered(recovered):
    """The sabotage: a toxic that nobody removed."""
    proof, made = recovered(SLOW)

    assert (proof.ok, proof.found) == (False, "109.0 ms")
    assert made == 1 + REPEATS


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([[]], "no answer"),
        ([SLOW, []], "109.0 ms"),
        ([[3.0]], "3.0 ms"),
    ],
)
def test_a_link_that_is_silent_breaks_off_or_has_lost_its_latency_has_not_recovered(recovered, calls, said):
    """No further pings are made of a connection that has ended, or of a link that is faster than it was."""
    proof, made = recovered(*calls)

    assert (proof.ok, proof.found, made) == (False, said, len(calls))
