"""Ctrl-C and SIGTERM while something must not be left half done: ignored, deferred, or raised after a cleanup."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class signals_held:  # noqa: N801 - it is used as contextlib's lower-case classes are
    """Ignore Ctrl-C and SIGTERM within the block, so that a second one cannot stop the removal of interrupted work."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of the block: an unfinished object has no name yet by which to remove it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C during whose cleanup `error` occurred, if there was one."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            raise error
