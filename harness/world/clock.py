"""Time as the lab sees it: now, and waiting on a condition. Nothing else in the harness sleeps."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    wait_fixed,
)

from harness.errors import LabError

Found = TypeVar("Found")


def now() -> str:
    """The time of day in UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def timer() -> float:
    """Seconds from an arbitrary moment, for differences only."""
    return time.perf_counter()


def pause(seconds: float, unless: threading.Event | None = None) -> None:
    """Wait so long, or until `unless` is set."""
    (unless or threading.Event()).wait(seconds)


def wait_until(condition: Callable[[], Found], what: str, seconds: float, every: float = 0.05, hint: str = "") -> Found:
    """The first truthy answer of `condition`; LabError after `seconds`, saying what was waited for."""
    attempts = Retrying(
        retry=retry_if_result(lambda answer: not answer),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(every),
        sleep=time.sleep,
    )
    try:
        return attempts(condition)
    except RetryError as error:
        raise LabError(f"waited {seconds:g} s and {what} did not come", what, hint or "./lab status") from error


def try_again(ask: Callable[[], Found], after: type[Exception], tries: int) -> Found:
    """The answer of `ask`, which is asked again after such an error; the last error where every try had one."""
    attempts = Retrying(retry=retry_if_exception_type(after), stop=stop_after_attempt(tries), sleep=pause, reraise=True)
    return attempts(ask)
