"""A command that keeps running in a container and answers questions, so that it is started only once."""

import os
import select
import subprocess
import weakref
from typing import IO

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker import engine

ANSWER_SECONDS = 2.5
END = b"\n\n"
SIZE = 1 << 16


class Conversation:
    """A running command: each question is a line, and each answer ends with an empty one.

    The command ends with its container, and when this process closes its standard input. `name` is who is asked; the
    command of Docker's client is in a session of its own, so that Ctrl-C does not end it before what needs it.
    """

    def __init__(self, name: str, *command: str, site: str = ""):
        self._name = name
        self._process = subprocess.Popen(
            [*engine.command_for(site), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _end, self._process)
        # What was received of the next answer, and the number of questions that were asked and not answered yet.
        self._received, self._unanswered = b"", 0

    def ask(self, question: str = "") -> str:
        """Return the answer; LabError, and the end of the command, if it has ended; LabError if none comes in time.

        A command that was too slow, as in a frozen container, is asked again: late answers are left out.
        """
        ends = clock.timer() + ANSWER_SECONDS
        try:
            while self._unanswered:
                self._answer(ends)
                self._unanswered -= 1
            os.write(self._pipe(self._process.stdin), f"{question}\n".encode())
            self._unanswered += 1
            found = self._answer(ends)
            self._unanswered -= 1
            return found
        except TimeoutError as error:
            raise self._error("does not answer") from error
        except (OSError, EOFError) as error:
            self.close()
            raise self._error("has ended") from error

    def _answer(self, ends: float) -> str:
        answers = self._pipe(self._process.stdout)
        while END not in self._received:
            if not select.select([answers], [], [], max(ends - clock.timer(), 0))[0]:
                raise TimeoutError
            chunk = os.read(answers, SIZE)
            if not chunk:
                raise EOFError
            self._received += chunk
        found, _, self._received = self._received.partition(END)
        return found.decode(errors="replace")

    def _pipe(self, pipe: IO[bytes] | None) -> int:
        if not pipe or pipe.closed:
            raise EOFError
        return pipe.fileno()

    def _error(self, what: str) -> LabError:
        return LabError(f"the command that tells the state of {self._name} {what}", "a running node", "./lab status")

    @property
    def has_ended(self) -> bool:
        return not self.close.alive


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the client; the engine then closes the command's standard input."""
    process.kill()
    process.communicate()
