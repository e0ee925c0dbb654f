"""Ctrl-C, SIGTERM and SIGHUP: no interruption gets lost, and none stops the cleanup that follows it."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from replication_lab.world import signals


@pytest.fixture(autouse=True)
def handler(monkeypatch):
    """Handle signals as a command does, with a short pause before one is raised again."""
    monkeypatch.setattr(signals, "REPEAT_SECONDS", 0.02)
    alarm = signal.getsignal(signal.SIGALRM)
    before = signals.handle()
    yield
    signals.noticed()
    signals.restore({**before, signal.SIGALRM: alarm})


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


@pytest.mark.parametrize("number", signals.HANDLED)
def test_a_signal_becomes_an_interruption_with_its_name(number):
    """What the record calls it is what was sent: Ctrl-C, `kill`, or the end of the terminal."""
    assert interruption_of(lambda: signal.raise_signal(number)) == number.name


@pytest.mark.parametrize("number", signals.HANDLED)
def test_no_signal_stops_a_removal(number):
    """A second one, of any kind, is ignored until it is done."""
    with signals.signals_held():
        assert interruption_of(lambda: signal.raise_signal(number)) == "none"
    assert interruption_of(lambda: signal.raise_signal(number)) == number.name


def test_work_of_another_thread_has_nothing_to_hold():
    """As a promotion that a viewer of the live page asked for: no signal interrupts a thread."""
    done = []

    def work_in_a_thread():
        with signals.signals_held():
            done.append("whole")

    thread = threading.Thread(target=work_in_a_thread)
    thread.start()
    thread.join()
    assert done == ["whole"]


@pytest.mark.parametrize("number", signals.HANDLED)
def test_a_signal_waits_for_the_end_of_what_must_not_be_half_done(number):
    """It is raised then."""
    done = []

    def work_and_stop():
        with signals.signals_deferred():
            signal.raise_signal(number)
            done.append("whole")

    assert interruption_of(work_and_stop) == number.name
    assert done == ["whole"]


def test_a_command_that_may_outlive_its_terminal_does(monkeypatch):
    """`nohup lab run …` ignores SIGHUP, and only that."""
    for number in signals.HANDLED:
        signal.signal(number, signal.SIG_IGN)
    signals.handle()

    assert interruption_of(lambda: signal.raise_signal(signal.SIGHUP)) == "none"
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
