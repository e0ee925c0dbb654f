"""Connections with TLS, where the server has it, which all use one context; each says whether it still answers."""

import select
import socket
import ssl
import time
from typing import Any

import pymysql

# It verifies no certificate: the lab's servers make their own ones.
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CONTEXT.check_hostname = False
CONTEXT.verify_mode = ssl.CERT_NONE


def seconds_until(until: float) -> float:
    """Return the seconds until this time by `time.monotonic`: a moment if it has passed."""
    return max(until - time.monotonic(), 0.001)


class TlsConnection(pymysql.Connection):
    """A connection of PyMySQL with that context.

    PyMySQL itself makes a context for each connection and reads all certificate authorities of the machine into it:
    45 ms of CPU for a connection that verifies nothing. It also sends a password in Latin-1; clients at a terminal, and
    the vendors' entrypoints, give the server UTF-8.

    `until` is a deadline for all answers, by `time.monotonic`. PyMySQL's own limit starts again with each part of an
    answer.
    """

    _sock: socket.socket
    _read_timeout: float | None

    def __init__(self, *, until: float | None = None, password: str = "", **options: Any):
        self._until = until
        super().__init__(password=password.encode(), **options)

    def _read_packet(self, *arguments: Any, **options: Any) -> Any:
        if self._until is not None:
            self._read_timeout = seconds_until(self._until)
        return super()._read_packet(*arguments, **options)

    def _create_ssl_ctx(self, _options: object) -> ssl.SSLContext:
        return CONTEXT

    def answer_within(self, seconds: float) -> None:
        """Let each answer from now on take this long; until now it was as long as an answer to the login."""
        self._read_timeout = seconds

    def has_news(self) -> bool:
        """Return whether something arrived unasked: the end of the connection, or the server's reason for it."""
        if not self.open:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def answers(self, seconds: float) -> bool:
        """Return whether the server answers a ping within this time, which has no effect there."""
        patience, self._read_timeout = self._read_timeout, seconds
        try:
            self.ping(reconnect=False)
        except (pymysql.err.Error, OSError):
            return False
        finally:
            self._read_timeout = patience
        return True
