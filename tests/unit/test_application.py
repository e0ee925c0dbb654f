"""Are the answers of an application counted in the right phase, and is its recovery measured from the fault's end?"""

import threading

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.application import Application, Probed, figures, sentences
from replication_lab.runner import application
from replication_lab.runner.application import Probe

from tests.fakes.parts import LabOfNames

WINDOWS = [(10.0, 20.0)]


def of(*probed):
    return figures(Application("p", "app", [Probed(*each) for each in probed]), WINDOWS)


def test_without_a_probe_or_a_fault_there_are_no_figures():
    """Nothing is claimed of an application that nobody asked."""
    assert figures(None, WINDOWS) == {} and figures(Application("p"), []) == {} and sentences({}) == []


def test_each_phase_has_its_success_and_its_latency():
    """A probe belongs to the phase in which it began; one that the fault overtook belongs to the fault."""
    found = of((1, 0.1, True), (2, 0.3, True), (9, 2, False), (12, 1, False), (19, 3, True), (22, 0.2, True))

    assert (found["app.before.probes"], found["app.before.success"], found["app.before.p50_ms"]) == (2, 1.0, 200)
    assert (found["app.during.probes"], found["app.during.success"]) == (3, pytest.approx(0.3333))
    assert (found["app.after.probes"], found["app.after.success"]) == (1, 1.0)
    assert "app.before.p95_ms" not in found


def test_the_recovery_ends_with_the_first_success_that_began_after_the_fault():
    """A probe that hung since the fault is no sign of it."""
    found = of((19.5, 0.8, True), (20.4, 0.5, False), (21, 0.25, True), (22, 0.1, True))

    assert found["app.recovered_s"] == 1.25
    assert "success 1.25 s after the fault was undone" in sentences(found)


def test_an_application_that_does_not_recover_has_no_time_for_it():
    """And it is said."""
    found = of((1, 0.1, True), (12, 1, False), (21, 1, False))

    assert "app.recovered_s" not in found
    assert "no success after the fault" in sentences(found) and "during: 0.0% of 1 probes succeeded" in sentences(found)


def test_a_percentile_needs_enough_probes():
    """Of twenty, the 95th percentile is one of the slowest."""
    found = of(*((each / 4, each / 1000, True) for each in range(1, 21)))

    assert found["app.before.p95_ms"] == pytest.approx(19, abs=0.1)


class Lab(LabOfNames):
    def __init__(self, answers):
        self._answers = answers

    def run(self, _name, *_command):
        if not self._answers():
            raise LabError("`sh -c curl` in app ended with 7", "exit status 0")


def test_a_probe_that_fails_before_the_fault_is_refused():
    """It could not tell a fault from its own defect."""
    Probe(Lab(lambda: True), "curl x", "app").check()
    with pytest.raises(LabError, match="the probe fails before any fault: `sh -c curl` in app ended with 7"):
        Probe(Lab(lambda: False), "curl x", "app").check()


def test_a_probe_that_hangs_has_failed_and_the_next_one_is_asked(monkeypatch):
    """Within its limit, and the hanging one is left behind."""
    monkeypatch.setattr(application, "ANSWER_SECONDS", 0.02)
    monkeypatch.setattr(application, "PAUSE_SECONDS", 0)
    never, answered = threading.Event(), threading.Event()

    def answers():
        if not answered.is_set():
            answered.set()
            never.wait()
        enough.set()
        return True

    enough = threading.Event()
    with Probe(Lab(answers), "curl x", "app").watching(0) as found:
        assert enough.wait(5)
    never.set()

    assert [each.ok for each in found.probed][:1] == [False]
