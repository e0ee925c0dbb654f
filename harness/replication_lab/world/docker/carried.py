"""A listening socket each of whose connections is carried by the standard input and output of a command."""

import socket
import subprocess
import threading
from collections.abc import Callable, Sequence


class Carried:
    """Accepts connections of `listening` for this process's life; `command` returns what carries the next one.

    A command runs in a session that Ctrl-C does not interrupt.
    """

    def __init__(self, listening: socket.socket, command: Callable[[], Sequence[str]]):
        self._listening, self._command = listening, command
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        carriers: list[subprocess.Popen[bytes]] = []
        while True:
            connection, _ = self._listening.accept()
            carriers = [each for each in carriers if each.poll() is None]
            with connection:
                carriers.append(
                    subprocess.Popen(
                        self._command(),
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )
