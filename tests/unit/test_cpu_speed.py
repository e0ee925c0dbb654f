"""Is the speed of the CPUs measured while a load runs, on those that it uses?"""

import os
import threading
from collections import defaultdict

import pytest
from replication_lab.probes import cpu_speed
from replication_lab.probes.cpu_speed import measured_speed
from replication_lab.world import clock

SOON_SECONDS = 20


def measured(monkeypatch, readings=cpu_speed.FEWEST):
    """Return the speed after so many readings, and the CPUs that this thread may use meanwhile."""
    taken, enough, loop = [], threading.Event(), cpu_speed.loop_us

    def counted():
        taken.append(loop())
        if len(taken) >= readings:
            enough.set()
        return taken[-1]

    monkeypatch.setattr(cpu_speed, "loop_us", counted)
    monkeypatch.setattr(cpu_speed, "EVERY_SECONDS", 0.001)
    with measured_speed() as speed:
        assert enough.wait(SOON_SECONDS)
        mine = os.sched_getaffinity(0)
    return speed.loop_us, mine, taken


def test_the_speed_is_that_of_the_loops_and_no_other_thread_is_pinned(monkeypatch):
    """The mean is between the fastest and the slowest reading."""
    before = os.sched_getaffinity(0)
    found, meanwhile, taken = measured(monkeypatch)

    assert min(taken) <= found + 0.1 and found - 0.1 <= max(taken)
    assert before == meanwhile == os.sched_getaffinity(0)


def test_a_block_that_is_too_short_has_no_speed():
    """One reading may be an interrupt's."""
    with measured_speed() as speed:
        pass

    assert speed.loop_us is None


def test_where_threads_cannot_be_pinned_there_is_no_speed(monkeypatch):
    """As on macOS."""
    monkeypatch.delattr(os, "sched_setaffinity")
    with measured_speed() as speed:
        clock.pause(0.01)

    assert speed.loop_us is None


@pytest.mark.parametrize(("busy", "loop_us"), [({0: 9.99, 1: 0.0}, 301), ({0: 0.0, 1: 9.99}, 499), ({}, 400)])
def test_the_cpu_that_the_load_used_counts(busy, loop_us):
    """Of two CPUs of which one is slow, the slow one counts if it was busy; if none was, both count."""
    after = {cpu: (seconds, 10.0) for cpu, seconds in busy.items()}
    found = cpu_speed._weighted({0: [300.0] * 3, 1: [500.0] * 3}, {}, after)

    assert found == pytest.approx(loop_us, abs=1)


def test_a_cpu_is_read_as_often_as_it_is_used():
    """Of sixteen CPUs the server uses one; the client uses another for a fifth of the time."""
    used = {cpu: {3: 10.01, 7: 2.01}.get(cpu, 0.01) for cpu in range(16)}
    readings = defaultdict(list)
    for _ in range(60):
        readings[cpu_speed._next(list(range(16)), readings, used)].append(0.0)

    assert {cpu: len(found) for cpu, found in readings.items()} == {3: 50, 7: 10}


def test_idle_cpus_are_read_in_turn():
    """None is left out."""
    readings = defaultdict(list)
    for _ in range(8):
        readings[cpu_speed._next([0, 1, 2, 3], readings, dict.fromkeys(range(4), 0.01))].append(0.0)

    assert [len(readings[cpu]) for cpu in range(4)] == [2, 2, 2, 2]
