"""A connection to the far end of a link, across the link, that times its answers where it runs.

At the far end is a database server, or an echo where there is none (images/vm/guest/far-end).
"""

import socket
import sys
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

import pymysql

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import mysql_errors
from replication_lab.world import clock

PING, ANSWER = b"ping\n", b"."
ZERO = bytes(1 << 16)
CONNECT_SECONDS = 5
# Bytes; more than a statement adds to the data in it.
STATEMENT = 1000


class Pinger:
    """A connection to a database server or an echo, `far_end`, by a link's address.

    Raise LabError if it does not answer. The caller closes it.
    """

    def __init__(self, far_end: Any, address: tuple[str, int], answer_seconds: float):
        opened = far_end.connect(address=address, answer_seconds=answer_seconds)
        self._connection = opened if isinstance(opened, EchoConnection) else SqlConnection(opened)

    def ping(self) -> float | None:
        """Return one round trip in ms; None when the connection was ended or nothing came back."""
        began = clock.timer()
        try:
            self._connection.ping()
        except (pymysql.err.Error, OSError):
            return None
        return (clock.timer() - began) * 1000

    def long_answer(self, size: int) -> float:
        """Receive this many bytes; return the seconds. OSError or an error of MySQL's when they do not come."""
        began = clock.timer()
        self._connection.long_answer(size)
        return clock.timer() - began

    def long_question(self, size: int) -> float:
        """Send this many bytes; return the seconds until the far end has them, errors as of `long_answer`."""
        began = clock.timer()
        self._connection.long_question(size)
        return clock.timer() - began

    def longest_question(self) -> int:
        """Return the most bytes that one question can carry."""
        return self._connection.longest_question()

    def close(self) -> None:
        self._connection.close()


class SqlConnection:
    """A connection to a database server, with the methods of one to an echo."""

    def __init__(self, connection: pymysql.Connection):
        self._connection = connection

    def ping(self) -> None:
        """Wait for one answer. Never reconnect: that would hide an ended connection."""
        self._connection.ping(reconnect=False)

    def long_answer(self, size: int) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT REPEAT('x', {size})")
            cursor.fetchall()

    def long_question(self, size: int) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"DO LENGTH('{'x' * size}')")

    def longest_question(self) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet")
            (most,) = cursor.fetchone() or (0,)
        return most - STATEMENT

    def close(self) -> None:
        self._connection.close()


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

    def ping(self) -> None:
        """Wait for one answer; OSError if none comes."""
        self._socket.sendall(PING)
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

    def longest_question(self) -> int:
        return sys.maxsize

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


def greets(address: tuple[str, int], seconds: float, is_echo: bool) -> bool:
    """Return whether anything comes from an address within these seconds: unasked, as of a server, or of an echo."""
    with suppress(OSError), socket.create_connection(address, timeout=seconds) as connection:
        if is_echo:
            connection.sendall(PING)
        return bool(connection.recv(1))
    return False


def passes(far_end: Any, address: tuple[str, int], seconds: float, size: int, is_question: bool) -> bool:
    """Return whether so many bytes arrive at the far end, or from there, within these seconds, by a new connection.

    LabError if anything but the time ends it: a server that answers with an error has got what it was sent.
    """
    try:
        with closing(Pinger(far_end, address, seconds)) as there:
            (there.long_question if is_question else there.long_answer)(size)
    except LabError as error:
        # Also while it is connected: a server's certificate is larger than a packet.
        if not mysql_errors.is_timeout(error.__cause__):
            raise
        return False
    except (pymysql.err.Error, OSError) as error:
        if not mysql_errors.is_timeout(error):
            raise LabError(
                f"{far_end.name} ended a row of {size} bytes: {error}", "an answer", "./lab status"
            ) from error
        return False
    return True
