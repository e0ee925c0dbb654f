"""Standard output and standard error of a command, also if they are closed or full, or their terminal has ended."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from replication_lab.model.core import command
from replication_lab.model.core.visible import visible

# Errors of a write without a reader: the other end of the pipe, or the terminal, is closed.
WITHOUT_READER = (errno.EPIPE, errno.EIO)


class Unwritable(Exception):
    """Standard output cannot be written. Not an OSError: click and rich would exit with the status of a verdict."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.reason = str(error.strerror)
        self.is_unread = error.errno in WITHOUT_READER


class Output:
    """A stream that raises Unwritable; for an installed package, the command in its texts is `lab`, not `./lab`.

    One that `drops` raises nothing: what is written without a reader is lost.
    """

    def __init__(self, stream: TextIO, installed: bool = False, drops: bool = False) -> None:
        self._stream, self._installed, self._drops = stream, installed, drops
        self._error: Unwritable | None = None

    def write(self, text: str) -> int:
        self._try(self._stream.write, command.installed(text) if self._installed else text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Callable[..., object], *text: str) -> None:
        try:
            act(*text)
        except OSError as error:
            # Redirect a stream to /dev/null, so that the text in its buffer causes no second error.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._error = Unwritable(error)
        # Raise it again at each later call: click first tries to write nothing, and ignores the error.
        if self._error and not self._drops:
            raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Visible:
    """A stream that escapes the characters that a terminal would obey. Everything that a command prints uses one.

    Rich's own colours must arrive: it writes to `rich_proxied_file`, and `world.console` shows these characters itself.
    Bytes would go past `write`, so there is no `buffer`.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        return self._stream.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def wrapped(installed: bool) -> Iterator[None]:
    """Wrap this process's standard streams within the block."""
    # Open the standard streams that the caller closed; otherwise another file would get their numbers.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number is that of the closed stream.
            opened = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r"))
    # Standard error drops its text without a reader, so that a closed terminal does not stop a cleanup.
    err = Visible(Output(sys.stderr, installed, drops=True))
    with redirect_stdout(Visible(Output(sys.stdout, installed))), redirect_stderr(err):
        yield
