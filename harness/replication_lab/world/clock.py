"""Time as the lab sees it: now, and waiting on a condition. Nothing else in the harness sleeps."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from replication_lab.model.core.errors import LabError

Found = TypeVar("Found")
# A working process reports a new state within this time, even on a slow machine; otherwise it has stalled.
STALLED_SECONDS = 180


class Stalled(LabError):
    """An error for a wait without any progress."""


def now() -> str:
    """Return the time of day in UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def timer() -> float:
    """Return seconds from an arbitrary moment, for differences only."""
    return time.perf_counter()


def pause(seconds: float, unless: threading.Event | None = None) -> None:
    """Wait for this long, or until `unless` is set."""
    (unless or threading.Event()).wait(seconds)


def wait_until(
    condition: Callable[[], Found | None],
    what: str,
    seconds: float = STALLED_SECONDS,
    every: float = 0.05,
    hint: str = "",
) -> Found:
    """Return the first truthy answer of `condition`; LabError after `seconds`, naming what did not happen.

    `condition` is called many times, so it only reads, or has an effect that may be repeated.
    """
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() >= until:
            raise LabError(f"timed out after {seconds:g} s waiting for {what}", what, hint or "./lab status")
        time.sleep(every)
    return found


def soon(ask: Callable[[], Found], seconds: float) -> Found | None:
    """Return the answer of `ask`; None after a LabError, or if there is none in time: a frozen node never answers.

    An `ask` that hangs is left behind.
    """
    said: list[Found] = []

    def listen() -> None:
        with suppress(LabError):
            said.append(ask())

    asking = threading.Thread(target=listen, daemon=True)
    asking.start()
    asking.join(seconds)
    return said[0] if said else None


def wait_while_moving(look: Callable[[], tuple[Found | None, str]], what: str, every: float, hint: str = "") -> Found:
    """Return the first truthy answer of `look`, however long it takes, as long as its state changes.

    `look` returns its answer and the state in words. Raise Stalled if no new state came for STALLED_SECONDS. A state
    that was seen before does not count as progress.
    """
    seen, since = set[str](), timer()
    while True:
        found, said = look()
        if found:
            return found
        if said not in seen:
            seen.add(said)
            since = timer()
        if timer() - since > STALLED_SECONDS:
            message = f"no progress for {STALLED_SECONDS} s; last state: {said}"
            raise Stalled(message, what, hint or "./lab status")
        time.sleep(every)


def wait_while_changing(look: Callable[[], tuple[bool, str]], seconds: float, still_seconds: float) -> None:
    """Wait until `look` says that it is done, at most `seconds`, or until its state has been the same for a while.

    `look` returns whether it is done, and the state in words.
    """
    began = since = timer()
    done, state = look()
    while not done and timer() - began < seconds and timer() - since < still_seconds:
        pause(0.05)
        done, now_ = look()
        if now_ != state:
            state, since = now_, timer()


def try_again(ask: Callable[[], Found], after: type[Exception], tries: int) -> Found:
    """Return the answer of `ask`. Repeat it after an error of type `after`, up to `tries` calls.

    A call that fails must leave nothing behind: as the start of a lab, which then removes it.
    """
    for _ in range(tries - 1):
        with suppress(after):
            return ask()
    return ask()
