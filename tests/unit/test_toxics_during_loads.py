"""Is a toxic that acts during a load proved by the round trips of its whole time, and taken off afterwards?"""

import os
import signal

import pytest
from replication_lab.faults.toxic_calibration import clear
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip


@pytest.fixture
def link() -> FakeLink:
    return FakeLink("source-replica")


def names(link) -> list[str]:
    return [body.name for body in link.toxics()]


def within(link, toxic, meanwhile=lambda: None, asked=None):
    """Return the evidence of a toxic that acts during `meanwhile`."""
    with toxic_on(link, toxic, asked or toxic, FakeRoundTrip(link)) as acting:
        meanwhile()
    return acting.fault()


def test_only_what_was_put_on_is_taken_off(link, latency):
    """A foreign toxic on the same link is still there after the block, also when the block fails."""
    link.add(latency(0, 0, "foreign").bodies[0])
    with pytest.raises(ZeroDivisionError):
        within(link, latency(42, 43), lambda: 1 / 0)

    assert names(link) == ["foreign-down"]


def test_a_toxic_that_acted_is_seen(link, latency):
    """Asked, before, during and after are recorded, and nothing is doubted."""
    fault = within(link, latency(42, 43))

    assert (fault.seen, fault.why, fault.asked) == (True, "", 85)
    assert fault.before < 1 and fault.after < 1 and fault.during.p50 > 80


def test_no_toxic_at_all_is_seen_as_such(link):
    """A link that was asked to be bare and is, is no doubt."""
    assert within(link, catalogue.toxic("lan")).seen


@pytest.mark.parametrize(("up", "seen"), [(2, True), (1, False)])
def test_the_timers_of_the_proxy_are_no_doubt_on_a_short_way(link, latency, up, seen):
    """A trip may be 2 ms shorter than 10 ms, not more; of 85 ms it is a tenth."""
    assert within(link, latency(5, up), asked=latency(5, 5)).seen is seen


def test_a_toxic_removed_during_the_load_is_not_seen(link, latency):
    """It is missing for a twentieth of the load."""
    fault = within(link, latency(42, 43), lambda: clear(link))

    assert not fault.seen
    assert fault.why.startswith("requested 85 ms on source-replica, but for ")
    assert fault.why.endswith("% of the load the round trip was shorter than 76.5 ms")


@pytest.fixture
def load_of(link, latency):
    """Return a function that gives the evidence of a toxic of 20 ms, with these round trips in ms during the load."""

    def evidence(*trips, after=0.4):
        toxic, probe = latency(10, 10), FakeRoundTrip(link)
        with toxic_on(link, toxic, toxic, probe) as acting:
            acting.trips[:] = trips
            probe.pings = lambda count=2: [20.5] if link.toxics() else [after]
        return acting.fault()

    return evidence


@pytest.mark.parametrize(("short", "seen"), [(1, True), (4, True), (9, False), (99, False)])
def test_a_load_is_judged_by_how_long_its_round_trips_were_short(load_of, short, seen):
    """A single short one among hundreds says nothing about a load of seconds."""
    fault = load_of(*[20.4] * (99 - short), *[15.0] * short)

    assert fault.seen is seen


def test_a_second_without_the_toxic_is_not_hidden_by_a_long_load(load_of):
    """It is 2 % of it; short round trips that are not in a row are the machine's."""
    assert not load_of(*[20.4] * 1500, *[0.4] * 60).seen
    assert load_of(*([20.4] * 25 + [0.4]) * 60).seen


def test_an_interruption_of_a_second_is_told_whoever_caused_it(load_of):
    """As by a rule on packets of the host. The machine may cause it too, so the measurement is repeated."""
    fault = load_of(*[20.4] * 500, 1_120.0, *[20.4] * 500)

    assert (fault.seen, fault.slow) == (False, True)
    assert fault.why == "requested 20 ms on source-replica, but a round trip during the load took 1.12 s"
    assert load_of(*[20.4] * 500, 640.0).seen


def test_a_slow_answer_after_the_load_is_a_slow_machine(load_of):
    """It is no toxic that stayed: that each change was the lab's own is the proxy's list."""
    assert load_of(*[20.4] * 9, after=12.844028000472463).seen


def test_a_load_whose_round_trips_ended_is_not_proved(link, latency):
    """The connection of the pings was lost; of what came later nothing is known."""
    toxic, probe = latency(42, 43), FakeRoundTrip(link)
    with toxic_on(link, toxic, toxic, probe) as acting:
        probe.pings = lambda count=2: []
    fault = acting.fault()

    assert (fault.seen, fault.slow) == (False, False)
    assert fault.why == "requested 85 ms on source-replica, but no round trip completed at the end of the load"


@pytest.mark.parametrize(("meanwhile", "seen"), [(None, True), (clear, False)])
def test_a_single_millisecond_is_proved(link, meanwhile, seen):
    """Although timers vary by more: upwards only."""
    assert within(link, catalogue.toxic("campus-1ms"), lambda: meanwhile and meanwhile(link)).seen is seen


def test_a_link_slower_than_asked_is_not_seen_as_asked(link, latency):
    """A second toxic on the link during the load is told by the median."""
    slow = latency(60, 60, "slow")
    fault = within(link, latency(42, 43), lambda: [link.add(body) for body in slow.bodies])

    assert not fault.seen and fault.slow
    assert "the median round trip" in fault.why


def test_a_calibrated_toxic_far_too_slow_is_told_by_the_median(link, latency):
    """What acts may differ from what was asked; what was asked is the measure."""
    assert "the median round trip during the load was 12" in within(link, latency(60, 60), asked=latency(42, 43)).why


def test_a_link_that_had_another_toxic_is_doubted(link, latency):
    """Something else slowed the link before the toxic came: its effect cannot be told apart."""
    link.add(latency(50, 0, "foreign").bodies[0])
    fault = within(link, latency(42, 0))

    assert not fault.seen
    assert "the link already had foreign-down" in fault.why


def test_a_link_from_which_nothing_came_back_is_doubted(link, latency):
    """No round trip during the load is no evidence."""
    link.cut()
    fault = within(link, latency(42, 43))

    assert (fault.seen, fault.during) == (False, None)
    assert "no round trip completed" in fault.why


def test_an_interruption_takes_the_toxic_off(interruptible, link, latency):
    """SIGINT in the middle of the load leaves the link as it was."""
    with pytest.raises(KeyboardInterrupt):
        within(link, latency(42, 43), lambda: os.kill(os.getpid(), signal.SIGINT))

    assert names(link) == []
