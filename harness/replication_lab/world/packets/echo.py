"""The echo of a link: a service at its far end that answers where no database server does (images/vm/guest/far-end)."""

import socket
from contextlib import ExitStack
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError

ANSWER = b"."
ZERO = bytes(1 << 16)
CONNECT_SECONDS = 5


def dialled(address: tuple[str, int]) -> socket.socket:
    """Return a TCP connection that sends each byte at once."""
    connection = socket.create_connection(address, timeout=CONNECT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class EchoConnection:
    """A connection to an echo. Each request is a line; a ping's answer is one byte."""

    def __init__(self, address: tuple[str, int], answer_seconds: float):
        self._socket = dialled(address)
        self._socket.settimeout(answer_seconds)

    def ping(self, reconnect: bool = False) -> None:  # noqa: ARG002 - a database connection's ping has it
        """Wait for one answer; OSError if none comes. Never reconnect: that would hide an ended connection."""
        self._ask("ping")
        self._read_answer()

    def long_answer(self, size: int) -> None:
        """Receive this many bytes; OSError if they do not come."""
        self._ask(f"send {size}")
        while size:
            size -= len(self._read(size))

    def long_question(self, size: int) -> None:
        """Send this many bytes, and wait until the far end has them; OSError if it does not take them."""
        self._ask(f"take {size}")
        while size:
            size -= self._socket.send(ZERO[:size])
        self._read_answer()

    def _ask(self, request: str) -> None:
        self._socket.sendall(f"{request}\n".encode())

    def _read_answer(self) -> None:
        if (found := self._read(len(ANSWER))) != ANSWER:
            raise ConnectionError(f"the echo service answered {found!r}; expected {ANSWER!r}")

    def _read(self, size: int) -> bytes:
        found = self._socket.recv(min(size, len(ZERO)))
        if not found:
            raise ConnectionResetError("the connection to the echo service was closed")
        return found

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True)
class Echo:
    """The echo server of a node, with the same methods to connect as a database server."""

    name: str

    def connect(self, address: tuple[str, int], answer_seconds: float) -> EchoConnection:
        """Return a new connection, by a link's address, after its first answer. The caller closes it."""
        with ExitStack() as undo:
            try:
                connection = EchoConnection(address, answer_seconds)
                undo.callback(connection.close)
                connection.ping()
            except OSError as error:
                host, port = address
                raise LabError(
                    f"the echo service of {self.name} at {host}:{port} does not answer: {error}",
                    "a connection",
                    "./lab status",
                ) from error
            undo.pop_all()
        return connection
