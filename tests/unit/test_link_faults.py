"""Is a link that works again told from one that does not, also on a machine that is starved for a while?"""

import math
from types import SimpleNamespace

import pytest
from replication_lab.faults import _links
from replication_lab.faults._links import PATIENCE_SECONDS, OnLinks

from tests.fakes.clock import FakeClock

BEFORE = [90.0, 85.0, 88.0]
SLOW = [118.1, 109.0, 120.0]
# What Toxiproxy adds to each round trip.
LATENCY_MS = 84
# How often slow pings are made before the lab gives up.
PATIENT = math.ceil(PATIENCE_SECONDS * 1000 / sum(SLOW))


class Probe:
    """Pings that take as long as was told, call by call; the last ones are repeated."""

    def __init__(self, calls):
        self.calls = iter(calls)
        self.made = 0
        self.last = []

    def pings(self):
        self.made += 1
        self.last = next(self.calls, self.last)
        _links.clock.pause(sum(self.last) / 1000)
        return self.last

    def close(self):
        pass


@pytest.fixture
def links(monkeypatch):
    """Return a function that makes OnLinks of one link with these probes, used in this order."""

    def make(*probes):
        made = iter(probes)
        monkeypatch.setattr(_links, "clock", FakeClock())
        monkeypatch.setattr(_links.OnLinks, "probe", lambda *_: next(made))
        lab = SimpleNamespace(link=lambda _: SimpleNamespace(latency_ms=lambda: LATENCY_MS))
        return OnLinks(lab, ["a-b"])

    return make


@pytest.fixture
def recovered(links):
    """Return the proof of a link that had BEFORE and now has these pings, and how often they were made."""

    def judge(*calls):
        after = Probe(calls)
        (proof,) = links(Probe([BEFORE]), after).verify_recovered()
        return proof, after.made

    return judge


def test_a_round_trip_before_a_fault_is_not_that_of_a_starved_machine(links):
    """Otherwise the link would be faster after the fault, which is how a lost latency shows."""
    before = Probe([SLOW, SLOW, BEFORE])

    (proof,) = links(before, Probe([BEFORE])).verify_recovered()

    assert (before.made, proof.doubt) == (3, None)


def test_a_link_that_is_always_slower_than_its_latency_has_that_round_trip(links):
    """The far end itself may be slow: an emulated machine."""
    before = Probe([SLOW])

    (proof,) = links(before, Probe([SLOW])).verify_recovered()

    assert (before.made, proof.expected, proof.doubt) == (PATIENT, "round trip about 109 ms", None)


def test_a_link_that_does_not_answer_cannot_be_broken(links, refused):
    """The error comes before any fault."""
    assert "does not answer before the fault" in refused(links, Probe([[]])).found


def test_a_link_is_as_before_once_a_round_trip_is(recovered):
    """A busy machine lengthens round trips and never shortens one, so one that is as before suffices."""
    proof, made = recovered(SLOW, SLOW, [130.0, 86.0])

    assert (proof.ok, proof.found, made) == (True, "86 ms", 3)
    assert recovered(BEFORE)[1] == 1


def test_a_link_that_stays_slower_has_not_recovered(recovered):
    """The sabotage: a toxic that nobody removed."""
    proof, made = recovered(SLOW)

    assert (proof.ok, proof.found) == (False, "109 ms")
    assert made == PATIENT


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([[]], "no answer"),
        ([SLOW, []], "109 ms"),
        ([[3.0]], "3 ms"),
    ],
)
def test_a_link_that_is_silent_breaks_off_or_has_lost_its_latency_has_not_recovered(recovered, calls, said):
    """No further pings are made of a connection that has ended, or of a link that is faster than it was."""
    proof, made = recovered(*calls)

    assert (proof.ok, proof.found, made) == (False, said, len(calls))
