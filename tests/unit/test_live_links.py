"""Does a link of a live view do only the newest that was asked, say what was not seen, and end as it was?"""

import threading

import pytest
from replication_lab.live import link_control
from replication_lab.live.link_control import LinkControl
from replication_lab.model.core.proof import Proof
from replication_lab.world import catalogue, lock

from tests.fakes.lab import FakeLab

LINK = "source-replica"
WAIT = 5


@pytest.fixture
def lab(fake_world):
    """Return a semi-synchronous lab of the fake world."""
    return FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")


class SlowCondition:
    """A condition whose first change waits for `go`; it writes down what it is told."""

    go, told, proofs = threading.Event(), [], []
    made = 0

    def __init__(self, *_):
        SlowCondition.made += 1

    def change(self, condition):
        self.told.append(condition)
        self.go.wait(WAIT)

    def recover(self):
        self.told.append("recovered")

    inject = close = lambda _self: None

    def verify(self):
        return list(self.proofs)

    verify_recovered = verify


class QuietCut(SlowCondition):
    """A cut that writes nothing down."""

    def __init__(self, *_):
        pass

    inject = recover = lambda _self: None


class Unwatched:
    """A link whose round trips nothing measures."""

    round_trip_ms = None

    def __init__(self, *_):
        self.ticking = self

    start = stop = changed = lambda _self: None


@pytest.fixture
def made(lab, monkeypatch):
    """Return a link's control, and semaphores that are released at each change and at each verification."""
    monkeypatch.setattr(link_control, "TOGETHER_SECONDS", 0)
    monkeypatch.setattr(link_control, "LinkWatch", Unwatched)
    changed, verified = threading.Semaphore(0), threading.Semaphore(0)
    link = LinkControl(lab, lab.topology.link(LINK), lambda *_: changed.release(), lambda *_: verified.release())
    yield link, changed, verified
    link.stop()


@pytest.fixture
def slow(made, monkeypatch):
    """Return the same with its faults replaced."""
    SlowCondition.go, SlowCondition.told, SlowCondition.made = threading.Event(), [], 0
    SlowCondition.proofs = [Proof("it acts", "200 ms", True)]
    monkeypatch.setattr(link_control, "LinkCondition", SlowCondition)
    monkeypatch.setattr(link_control, "Cut", QuietCut)
    yield made
    SlowCondition.go.set()


@pytest.fixture
def control(slow):
    """Return the same, started, after its first verification."""
    link, _, verified = slow
    link.start()
    assert verified.acquire(timeout=WAIT)
    return slow


def test_of_a_sliders_steps_only_the_newest_counts(control):
    """While one is being put, those that follow are put together."""
    link, changed, _ = control
    link.ask("1ms")
    while not SlowCondition.told:
        threading.Event().wait(0.001)
    for condition in ("40ms", "85ms", "0.2s"):
        link.ask(condition)
    SlowCondition.go.set()
    assert changed.acquire(timeout=WAIT) and changed.acquire(timeout=WAIT)

    assert SlowCondition.told == ["1ms", "200ms"]
    assert link.view(carries=True).asked == "200ms"


def test_a_change_while_another_command_changes_the_lab_is_answered_by_what_it_is(control, monkeypatch):
    """Nothing is put on the link; the next change is."""

    def taken(name, _doing):
        raise lock.LabTaken(f"{name} is in use by `lab disk migrate`", "that command to finish")

    link, changed, verified = control
    SlowCondition.go.set()
    with monkeypatch.context() as patch:
        patch.setattr(lock, "lab_held", taken)
        link.ask("40ms")
        assert verified.acquire(timeout=WAIT)
        view = link.view(carries=True)
    assert (view.seen, "is in use by `lab disk migrate`" in view.says) == (False, True)
    assert SlowCondition.told == []

    link.ask("85ms")
    assert changed.acquire(timeout=WAIT) and verified.acquire(timeout=WAIT)
    assert SlowCondition.told == ["85ms"] and link.view(carries=True).seen


def test_a_condition_that_was_not_seen_is_said_so(control):
    """Sabotage: its proof fails; what was found is shown."""
    link, _, verified = control
    SlowCondition.proofs = [Proof(f"{LINK} is 200ms", "85.2 ms", False, "a round trip of 200 ms")]
    SlowCondition.go.set()
    link.ask("200ms")
    assert verified.acquire(timeout=WAIT)

    assert link.view(carries=True).seen is False and "found 85.2 ms" in link.view(carries=True).says


def test_a_condition_without_a_proof_was_not_seen(control):
    """Sabotage: its fault proves nothing."""
    link, _, verified = control
    SlowCondition.proofs = []
    SlowCondition.go.set()
    link.ask("200ms")
    assert verified.acquire(timeout=WAIT)

    assert link.view(carries=True).seen is False and "expected a proof" in link.view(carries=True).says


def test_the_faults_of_a_link_are_made_once_whichever_thread_is_first(slow):
    """A second one would take what the first one put there for what the link had."""
    link, changed, verified = slow
    SlowCondition.go.set()
    link.ask("200ms")
    link.start()

    assert changed.acquire(timeout=WAIT) and verified.acquire(timeout=WAIT)
    assert SlowCondition.made == 1


def test_the_end_restores_a_link_after_a_change_that_is_being_put(control):
    """Ctrl-C while the slider moves: the change is not the last word."""
    link, _, _ = control
    link.ask("200ms")
    while not SlowCondition.told:
        threading.Event().wait(0.001)
    ending = threading.Thread(target=link.stop)
    ending.start()
    SlowCondition.go.set()
    ending.join(WAIT)

    assert SlowCondition.told == ["200ms", "recovered"]


def test_a_link_that_was_cut_twice_is_switched_on_at_the_end(lab, made):
    """Two viewers, or two clicks."""
    link, changed, _ = made
    link.start()
    for _ in range(2):
        link.ask("cut")
        assert changed.acquire(timeout=WAIT)
    assert not lab.link(LINK).enabled()
    link.stop()

    assert lab.link(LINK).enabled()


def test_an_unchanged_link_is_measured_anew_after_a_busy_moment(slow, monkeypatch):
    """Its faults are made again, until it is as expected; after a change they keep what the link had before."""
    link, _, verified = slow
    monkeypatch.setattr(link_control, "AGAIN_SECONDS", 0)
    SlowCondition.proofs = [Proof("it is as it was", "85 ms", False, "141 ms")]
    link.start()
    assert verified.acquire(timeout=WAIT) and verified.acquire(timeout=WAIT)
    assert link.view(carries=True).seen is False and SlowCondition.made >= 2
    SlowCondition.proofs = [Proof("it is as it was", "85 ms", True)]
    while not link.view(carries=True).seen:
        assert verified.acquire(timeout=WAIT)
    while verified.acquire(timeout=0.05):
        pass
    made = SlowCondition.made
    SlowCondition.proofs = [Proof("it acts", "200 ms", False)]
    SlowCondition.go.set()
    link.ask("200ms")

    assert verified.acquire(timeout=WAIT) and link.view(carries=True).seen is False
    assert not verified.acquire(timeout=0.05) and SlowCondition.made == made


@pytest.mark.parametrize("condition", ["40", "loss 1%", "nowhere"])
def test_a_condition_that_there_is_not_is_refused_at_once(control, refused, condition):
    """Before anything of it is put."""
    refused(control[0].ask, condition)

    assert SlowCondition.told == []
