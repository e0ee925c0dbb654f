"""A command that stays in a container and answers one question after another, where starting it anew costs much."""

import os
import select
import subprocess
import weakref
from typing import IO

from replication_lab.model.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker.service import Service

ANSWER_SECONDS = 2.5
QUESTION, END = b"\n", b"\n\n"
SIZE = 1 << 16


class Conversation:
    """A running command: each question is an empty line, and each answer ends with one.

    The command ends with its container, and when this process closes its standard input.
    """

    def __init__(self, service: Service, *command: str):
        self._name = service.name
        self._process = subprocess.Popen(
            ["docker", "exec", "-i", str(service.container.id), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.close = weakref.finalize(self, _end, self._process)

    def ask(self) -> str:
        """Return the next answer; LabError if the command has ended, or does not answer in time."""
        questions, answers = self._process.stdin, self._process.stdout
        try:
            if not questions or not answers or questions.closed:
                raise BrokenPipeError
            os.write(questions.fileno(), QUESTION)
            return self._answer(answers)
        except (OSError, EOFError) as error:
            said = "does not answer" if isinstance(error, TimeoutError) else "has ended"
            raise LabError(
                f"the command that tells the state of {self._name} {said}", "a running node", "./lab status"
            ) from error

    def _answer(self, answers: IO[bytes]) -> str:
        found, ends = b"", clock.timer() + ANSWER_SECONDS
        while not found.endswith(END):
            if not select.select([answers], [], [], max(ends - clock.timer(), 0))[0]:
                raise TimeoutError
            chunk = os.read(answers.fileno(), SIZE)
            if not chunk:
                raise EOFError
            found += chunk
        return found.decode(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the client; the engine then closes the command's standard input."""
    process.kill()
    process.communicate()
