"""Ctrl-C, SIGTERM, SIGHUP: raised again until handled; ignored or deferred while work must not be half done."""

import functools
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

REPEAT_SECONDS = 1.0
# What ends a command: Ctrl-C, `kill` or a cancelled job, and a terminal or connection that was closed.
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The labs that were removed because of an interruption. Only these may be reported as removed.
REMOVED: list[str] = []


class Stopped(KeyboardInterrupt):
    """An interruption; `said` is what became of the work, for the last message of the command."""

    def __init__(self, name: str, said: str):
        super().__init__(name)
        self.said = said


def handle(numbers: Sequence[signal.Signals] = HANDLED) -> dict[signal.Signals, Any]:
    """Let these signals raise an interruption; return the previous handlers. SIGHUP stays ignored under `nohup`."""
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if number != signal.SIGHUP or handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    return before


def restore(before: Mapping[signal.Signals, Any]) -> None:
    """Restore the handlers that `handle` returned."""
    for number, handler in before.items():
        signal.signal(number, handler)


def exit_status(name: str) -> int:
    """Return the exit status after the signal of that name, as a shell does; for any other text, that of SIGINT."""
    return 128 + signal.Signals.__members__.get(name, signal.SIGINT)


def forget() -> None:
    """Let the next signal end this process at once: nothing is left to be cleaned up."""
    noticed()
    # After an interruption within an `exec` of a text, as dataclasses use, Python ends the process by SIGINT instead of
    # with its status. Another `exec` clears that state.
    exec("")
    for number in HANDLED:
        signal.signal(number, signal.SIG_DFL)


def note_removal(name: str) -> None:
    """Note that a lab was removed, if an interruption is the reason."""
    if interruption_within(sys.exc_info()[1]) is not None:
        REMOVED.append(name)


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt with the signal's name, and again each second until `noticed` is called.

    PyMySQL suppresses whatever is raised while it closes a socket, and Python whatever is raised while it deletes an
    object. Of 2488 signals to a program that connects and closes, 50 got lost in this way.
    """
    name = signal.Signals(number).name
    signal.signal(signal.SIGALRM, functools.partial(_repeat, name))
    signal.setitimer(signal.ITIMER_REAL, REPEAT_SECONDS, REPEAT_SECONDS)
    raise KeyboardInterrupt(name)


def _repeat(name: str, _number: int, _frame: FrameType | None) -> None:
    """Raise the interruption again, unless it is being handled: a cleanup may take long and must not be stopped."""
    ignored = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    if not ignored and interruption_within(sys.exc_info()[1]) is None:
        raise KeyboardInterrupt(name)


def noticed() -> None:
    """Do not raise an interruption again; for the `except` block of code that continues, such as with a report."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class signals_held:  # noqa: N801 - it is used as contextlib's lower-case classes are
    """Ignore what ends a command within the block, so that a second one cannot stop the removal of interrupted work.

    Signals interrupt only the main thread, and only there can be ignored; another thread has nothing to hold.
    """

    def __enter__(self) -> None:
        held = HANDLED if threading.current_thread() is threading.main_thread() else ()
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in held}

    def __exit__(self, *_: object) -> None:
        restore(self._before)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer what ends a command to the end of the block: an unfinished object has no name yet by which to remove it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*HANDLED, signal.SIGALRM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C during whose cleanup `error` occurred, if there was one."""
    if interruption := interruption_within(error.__context__):
        raise interruption


def interruption_within(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interruption that `error` is, or during whose handling it occurred."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error
