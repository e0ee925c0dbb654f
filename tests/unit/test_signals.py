"""Ctrl-C and SIGTERM: no interruption gets lost, and none stops the cleanup that follows it."""

import signal
from collections.abc import Callable
from contextlib import suppress

import pytest
from replication_lab.world import signals


@pytest.fixture(autouse=True)
def handler(monkeypatch):
    """Handle SIGTERM as a command does, with a short pause before it is raised again."""
    monkeypatch.setattr(signals, "REPEAT_SECONDS", 0.02)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGTERM, signals.interrupt)
    yield
    signals.noticed()
    for number, handled in before.items():
        signal.signal(number, handled)


@pytest.fixture
def two_repeats(monkeypatch) -> Callable[[], None]:
    """Return a function that waits for two moments at which the interruption may be raised again."""
    seen = []
    repeat = signals._repeat

    def counted(*arguments):
        seen.append(arguments)
        repeat(*arguments)

    def wait():
        while len(seen) < 2:
            signal.pause()

    monkeypatch.setattr(signals, "_repeat", counted)
    return wait


def swallow(act: Callable[[], object]) -> None:
    """Call as PyMySQL closes a socket: whatever is raised gets lost."""
    with suppress(BaseException):
        act()


def interruption_of(act: Callable[[], object]) -> str:
    """Return the name of the signal that interrupts a call."""
    try:
        act()
    except KeyboardInterrupt as stop:
        signals.noticed()
        return str(stop)
    return "none"


def stop() -> None:
    signal.raise_signal(signal.SIGTERM)


def work() -> None:
    while True:
        signal.pause()


def test_a_signal_becomes_an_interruption_with_its_name():
    """What the record calls it is what was sent."""
    assert interruption_of(stop) == "SIGTERM"


def test_an_interruption_that_a_library_swallowed_is_raised_again():
    """Otherwise a run that was told to stop would continue to its end."""
    swallow(stop)

    assert interruption_of(work) == "SIGTERM"


def test_an_interruption_that_is_swallowed_twice_is_raised_a_third_time():
    """There may be many connections to close."""
    swallow(stop)
    swallow(work)

    assert interruption_of(work) == "SIGTERM"


def test_a_cleanup_is_not_interrupted_again(two_repeats):
    """Neither in the block that handles it nor where an error occurred in that block."""

    def work_and_clean_up():
        try:
            stop()
        finally:
            try:
                raise ValueError("the cleanup's own")
            except ValueError:
                two_repeats()
            cleaned.append("up")

    cleaned = []

    assert interruption_of(work_and_clean_up) == "SIGTERM"
    assert cleaned == ["up"]


def test_a_removal_is_not_interrupted_again(two_repeats):
    """The block began after the interruption had got lost."""

    def remove_and_work():
        with signals.signals_held():
            two_repeats()
            removed.append("all")
        work()

    removed = []
    swallow(stop)

    assert interruption_of(remove_and_work) == "SIGTERM"
    assert removed == ["all"]


def test_an_interruption_that_was_noticed_is_not_raised_again():
    """A run writes its report after it was stopped."""
    assert interruption_of(stop) == "SIGTERM"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_error_of_the_cleanup_does_not_hide_the_interruption():
    """A container that is already gone is no reason to go on with the run."""

    def work_and_fail():
        try:
            try:
                stop()
            finally:
                raise ValueError("the cleanup's own")
        except ValueError as error:
            signals.raise_interruption(error)

    assert interruption_of(work_and_fail) == "SIGTERM"
