"""Ctrl-C and SIGTERM, held or deferred while something may not be left half done, and never lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class signals_held:
    """Ctrl-C and SIGTERM wait while what they interrupted is taken away; a second one would leave half of it behind."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Ctrl-C and SIGTERM act at the end of the block: what is half made has no name yet by which to remove it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C that `error`, a failure while cleaning up after it, has covered."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            raise error
