"""A connection to the far end of a link, across the link, that times its answers where it runs."""

import socket
from typing import Any

from replication_lab.world import clock
from replication_lab.world.mysql import connection


class Pinger:
    """A connection to a database server or an echo, `far_end`, by a link's address.

    Raise LabError if it does not answer. The caller closes it.
    """

    def __init__(self, far_end: Any, address: tuple[str, int], answer_seconds: float):
        self._connection = far_end.connect(address=address, answer_seconds=answer_seconds)

    def ping(self) -> float | None:
        """Return one round trip in ms; None when the connection was ended or nothing came back."""
        began = clock.timer()
        return (clock.timer() - began) * 1000 if connection.answers_ping(self._connection) else None

    def long_answer(self, size: int) -> float:
        """Receive this many bytes; return the seconds."""
        began = clock.timer()
        connection.long_answer(self._connection, size)
        return clock.timer() - began

    def long_question(self, size: int) -> float:
        """Send this many bytes; return the seconds until the far end has them."""
        began = clock.timer()
        connection.long_question(self._connection, size)
        return clock.timer() - began

    def longest_question(self) -> int:
        """Return the most bytes that one question can carry."""
        return connection.longest_question(self._connection)

    def close(self) -> None:
        self._connection.close()


def greets(address: tuple[str, int], seconds: float) -> bool:
    """Return whether what is behind an address sends anything within these seconds, unasked, as a server does."""
    try:
        with socket.create_connection(address, timeout=seconds) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False
