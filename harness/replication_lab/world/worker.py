"""The process beside the nodes: it makes clients and probes, and calls their methods, for a harness elsewhere.

The harness hands it the package's own code, so that the same clients run in either place. A request is a pickle on
standard input: the harness is trusted. An answer is a line of JSON on standard output, which the harness decodes by the
type that it expects: what a container says is data. The process ends with its standard input.
"""

import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import msgspec

from replication_lab.model.core.errors import LabError


class Request(NamedTuple):
    """A call with its number: of `what`, or of the method of that name of the object that request `of` has made.

    `keep` keeps the result as an object; with `writes` the method gets a parameter `write`.
    """

    number: int
    what: Callable[..., Any] | str
    arguments: tuple[Any, ...] = ()
    of: int = 0
    keep: bool = False
    writes: bool = False


class WorkerAnswer(msgspec.Struct, omit_defaults=True):
    """What became of a request: a value, a line that it wrote, or an error (found, expected, next step)."""

    number: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    line: str | None = None
    error: tuple[str, str, str] | None = None


class Worker:
    """Answers requests, each in a thread of its own."""

    def __init__(self, answers: BinaryIO):
        self._answers, self._writing = answers, threading.Lock()
        self._made: dict[int, Any] = {}

    def serve(self, requests: BinaryIO) -> None:
        """WorkerAnswer until the requests end."""
        while True:
            try:
                request = pickle.load(requests)
            except EOFError:
                return
            threading.Thread(target=self._do, args=(request,), daemon=True).start()

    def _do(self, request: Request) -> None:
        number = request.number
        try:
            value = self._call(request)
            self._tell(WorkerAnswer(number, msgspec.Raw(msgspec.json.encode(value))))
        except LabError as error:
            self._tell(WorkerAnswer(number, error=(error.found, error.expected, error.next_step)))
        except Exception as error:
            self._tell(WorkerAnswer(number, error=(f"{type(error).__name__}: {error}", "", "")))

    def _call(self, request: Request) -> Any:
        what = getattr(self._made[request.of], request.what) if isinstance(request.what, str) else request.what
        writes = {"write": lambda line: self._tell(WorkerAnswer(request.number, line=line.decode()))}
        found = what(*request.arguments, **(writes if request.writes else {}))
        if request.keep:
            self._made[request.number] = found
            return None
        return found

    def _tell(self, answer: WorkerAnswer) -> None:
        line = msgspec.json.encode(answer) + b"\n"
        with self._writing:
            self._answers.write(line)
            self._answers.flush()


def main() -> None:
    """Serve the harness; end at once when it has ended, whatever still runs."""
    Worker(sys.stdout.buffer).serve(sys.stdin.buffer)
    os._exit(0)
