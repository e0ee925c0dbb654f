"""An echo server at the far end of a link, where no database server answers: it sends back all bytes."""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

from replication_lab.model.errors import LabError

PING = b"."
CONNECT_SECONDS = 5


def dialled(address: tuple[str, int]) -> socket.socket:
    """Return a TCP connection that sends each byte at once."""
    connection = socket.create_connection(address, timeout=CONNECT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class EchoConnection:
    """A connection to an echo; a ping is one byte, there and back."""

    def __init__(self, address: tuple[str, int], answer_seconds: float):
        self._socket = dialled(address)
        self._socket.settimeout(answer_seconds)

    def ping(self, reconnect: bool = False) -> None:  # noqa: ARG002 - a database connection's ping has it
        """Send a byte and read it back; OSError if none comes. Never reconnect: that would hide an ended connection."""
        self._socket.sendall(PING)
        self._read(len(PING))

    def long_answer(self, size: int) -> None:
        """Send this many bytes, and read them as they come back."""
        sender = threading.Thread(target=self._send, args=(bytes(size),), daemon=True)
        sender.start()
        self._read(size)
        sender.join()

    def _send(self, content: bytes) -> None:
        with suppress(OSError):
            # The reader sees that the connection ended.
            self._socket.sendall(content)

    def _read(self, size: int) -> None:
        while size:
            found = self._socket.recv(min(size, 1 << 16))
            if not found:
                raise ConnectionResetError("the connection to the echo service was closed")
            size -= len(found)

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True)
class Echo:
    """The echo server of a node, with the same methods to connect as a database server."""

    name: str

    def connect(self, address: tuple[str, int], answer_seconds: float) -> EchoConnection:
        """Return a new connection, by a link's address, after its first answer. The caller closes it."""
        try:
            connection = EchoConnection(address, answer_seconds)
            connection.ping()
        except OSError as error:
            host, port = address
            raise LabError(
                f"the echo service of {self.name} at {host}:{port} does not answer: {error}",
                "a connection",
                "./lab status",
            ) from error
        return connection
