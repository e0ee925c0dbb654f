"""How often is a link measured until it is as requested, or refused?"""

import itertools

import pytest
from replication_lab.lab import up
from replication_lab.model.core.proof import Proof
from replication_lab.world import catalogue

WAN = catalogue.toxic("wan-85ms")
QUIET_MS, BUSY_MS = 0.5, 17.4
# Stands for a measurement that leaves the toxic on its link.
THERE = 0


@pytest.fixture
def measured(monkeypatch):
    """Return a function that gives the link these measurements, (ok, ms without the toxic), the last one for ever."""

    def give(*found, pressure=0.0):
        attempts, seconds = [], itertools.count()
        monkeypatch.setattr(up.clock, "timer", lambda: next(seconds))
        monkeypatch.setattr(up.host, "cpu_pressure", lambda *_: pressure)

        def measure(_lab, _link, _toxic, lanes):
            ok, bare_ms = found[min(len(attempts), len(found) - 1)]
            attempts.append(lanes)
            return Proof("the link", str(ok), ok), bare_ms

        def measure_there(_lab, _link, _toxic, _bare_ms):
            proof, _ = measure(_lab, _link, _toxic, THERE)
            return proof

        monkeypatch.setattr(up, "_put_and_measured", measure)
        monkeypatch.setattr(up, "_measured_there", measure_there)
        return attempts

    return give


def proved(in_use=False):
    return up._prove_link(None, "source-replica", WAN, in_use)


def test_a_link_as_requested_is_measured_once(measured):
    """Each further measurement would take a second."""
    attempts = measured((True, QUIET_MS))

    assert proved().ok and len(attempts) == 1


def test_a_link_that_is_not_as_requested_is_measured_once_more_by_one_ping_after_another(measured):
    """Several at once may have lengthened each other."""
    attempts = measured((False, BUSY_MS), (False, QUIET_MS))

    assert not proved().ok and attempts == [up.PINGS, 1]


def test_on_a_busy_machine_a_link_is_measured_until_it_is_as_requested(measured):
    """At the start of several labs a link without its toxic took 17 ms, and was refused."""
    attempts = measured(*[(False, BUSY_MS)] * 4, (True, BUSY_MS))
    found = proved()

    assert found.ok and len(attempts) == 5
    assert found.found == "True; measured 3 times more, on a busy machine"


def test_tasks_that_wait_for_a_cpu_are_a_busy_machine_too(measured):
    """At the start of several labs a link took 93.9 ms instead of 85, and 0.2 ms a moment before, without its toxic."""
    attempts = measured((False, QUIET_MS), (False, QUIET_MS), (True, QUIET_MS), pressure=0.9)

    assert proved().ok and len(attempts) == 3


def test_a_machine_that_stays_busy_refuses_the_link_after_a_while(measured):
    """Each reading of the clock is a second later."""
    attempts = measured((False, BUSY_MS))

    assert not proved().ok and len(attempts) == up.BUSY_SECONDS + 1


def test_the_link_of_a_lab_in_use_is_measured_again_without_removing_its_toxic(measured):
    """Four tests beside each other made round trips of 200 ms take 244 ms; clients would notice a missing toxic."""
    attempts = measured(*[(False, QUIET_MS)] * 4, (True, QUIET_MS), pressure=0.9)

    assert proved(in_use=True).ok and attempts == [up.PINGS, 1, THERE, THERE, THERE]


def test_the_link_of_a_lab_in_use_is_refused_after_a_while_too(measured):
    """Sabotage: the round trip never becomes as requested."""
    attempts = measured((False, BUSY_MS))

    assert not proved(in_use=True).ok and len(attempts) == up.BUSY_SECONDS + 1


def test_a_toxic_that_has_no_measure_is_not_repeated(measured):
    """A black hole answers nothing, however often it is asked."""
    attempts = measured((False, BUSY_MS))
    assert not up._prove_link(None, "source-replica", catalogue.toxic("black-hole")).ok

    assert len(attempts) == 1
