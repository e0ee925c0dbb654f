"""Is a drill's toxic proved by its own effect, and never by what something else has done to the link?"""

import pytest
from replication_lab.faults.toxic_calibration import put
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip


@pytest.fixture
def injected(conditioned):
    """Return a fault of that toxic, injected into one link, and the link."""

    def inject(toxic: str):
        link = FakeLink("a-b")
        fault = conditioned(link, toxic=toxic)
        fault.inject()
        return fault, link

    return inject


@pytest.mark.parametrize("toxic", ["40ms", "jitter", "20ms±20ms", "reset", "black-hole"])
def test_a_toxic_that_acts_is_proved(injected, toxic):
    """As often as it is asked."""
    fault, _ = injected(toxic)

    assert [proof.doubt for proof in [*fault.verify(), *fault.verify()]] == [None, None]


@pytest.mark.parametrize("toxic", ["40ms", "jitter", "20ms±20ms", "reset", "black-hole"])
def test_a_toxic_without_an_effect_is_not_proved(injected, toxic):
    """It is on the link, and the link is as it was; a jitter as long as its delay may leave single trips as short."""
    fault, link = injected(toxic)
    link.round_trip_ms = lambda: 0.3

    assert [proof.ok for proof in fault.verify()] == [False]


@pytest.mark.parametrize("toxic", ["reset", "black-hole"])
def test_a_far_end_that_was_killed_does_not_prove_a_toxic(injected, toxic):
    """Nothing comes back, but the toxic is not on the link."""
    fault, link = injected(toxic)
    for body in fault.asked.bodies:
        link.remove(body.name)
    link.round_trip_ms = lambda: None
    (proof,) = fault.verify()

    assert (proof.ok, proof.found) == (False, "the toxic was removed")


def test_a_toxic_is_added_to_the_one_that_is_there_and_taken_off_alone(conditioned):
    """The round trip is longer by the toxic's own; another fault may have added one meanwhile, which stays."""
    link = FakeLink("a-b")
    put(link, catalogue.toxic("wan-85ms"))
    fault = conditioned(link, toxic="40ms")
    fault.inject()
    assert [proof.ok for proof in fault.verify()] == [True]
    for body in catalogue.toxic("5ms").bodies:
        link.add(body)
    fault.recover()

    assert [body.name for body in link.toxics()] == ["wan-85ms-down", "wan-85ms-up", "5ms-delay-down", "5ms-delay-up"]


@pytest.mark.parametrize(("trip_ms", "proved"), [(125.0, True), (122.0, True), (100.0, False)])
def test_a_link_that_was_measured_in_a_busy_moment_does_not_disprove_a_toxic(conditioned, trip_ms, proved):
    """The link was quicker than its round trip before says; one that has hardly half of the toxic is not as asked."""
    link = FakeLink("a-b")
    put(link, catalogue.toxic("wan-85ms"))
    fault = conditioned(link, toxic="40ms")
    fault.inject()
    fault.before_ms["a-b"] = 87.0
    link.round_trip_ms = lambda: trip_ms

    assert [proof.ok for proof in fault.verify()] == [proved]


def test_a_toxic_without_a_delay_is_not_disproved_by_a_round_trip(conditioned):
    """The link was quicker than its round trip before says, and lost packets make no round trip longer."""
    link = FakeLink("a-b")
    put(link, catalogue.toxic("wan-85ms"))
    fault = conditioned(link, toxic="loss=5%")
    fault.inject()
    fault.before_ms["a-b"] = 99.0

    assert [proof.ok for proof in fault.verify()] == [True]


@pytest.mark.parametrize("stays", [True, False])
def test_a_jitter_that_was_removed_during_a_load_is_noticed(stays):
    """Its round trips may be as short as those of the bare link, and do differ."""
    link, toxic = FakeLink("a-b"), catalogue.toxic("40ms±40ms")
    with toxic_on(link, toxic, toxic, FakeRoundTrip(link)) as acting:
        acting.trips += FakeRoundTrip(link).pings(20)
        for body in toxic.bodies if not stays else ():
            link.remove(body.name)

    assert acting.fault().seen is stays
    assert stays or acting.fault().why == "requested 40 ms on a-b, but the toxic was removed during the load"
