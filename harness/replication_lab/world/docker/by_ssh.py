"""The engine at the far end of ssh://, for the SDK, whose own way there needs a package that the lab does not have.

As Docker's client does, each connection is a command `docker system dial-stdio` on the host, started by ssh, with the
user's own keys and settings.
"""

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from urllib.parse import urlsplit

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import own_engine

SCHEME = "ssh://"
DIAL = ("docker", "system", "dial-stdio")


def carry(listening: socket.socket, command: Callable[[], Sequence[str]]) -> None:
    """Carry each connection of a socket by a command's input and output; `command` returns that of the next one.

    It accepts for this process's life. A command runs in a session that Ctrl-C does not interrupt.
    """

    def serve() -> None:
        carriers: list[subprocess.Popen[bytes]] = []
        while True:
            connection, _ = listening.accept()
            carriers = [each for each in carriers if each.poll() is None]
            with connection:
                end, none = connection.fileno(), subprocess.DEVNULL
                carrier = subprocess.Popen(command(), stdin=end, stdout=end, stderr=none, start_new_session=True)
            carriers.append(carrier)

    threading.Thread(target=serve, daemon=True).start()


def command(host: str) -> list[str]:
    """Return the command that connects to the engine at ssh://[USER@]HOST[:PORT]; LabError for another text."""
    try:
        found = urlsplit(host)
        name, port = found.hostname, found.port
    except ValueError:
        name, port = None, None
    if not name or name.startswith("-"):
        raise LabError(f"DOCKER_HOST is {host}", "ssh://USER@HOST, or ssh://USER@HOST:PORT", "unset DOCKER_HOST")
    user, at = (["-l", found.username] if found.username else []), (["-p", str(port)] if port else [])
    return ["ssh", *user, *at, "-o", "BatchMode=yes", "--", name, *DIAL]


@cache
def socket_to(host: str) -> str:
    """Return the address of a socket of this user's that leads to that engine, for this process's life."""
    words = command(host)
    folder = tempfile.TemporaryDirectory(prefix="replication-lab-ssh-")
    path = os.path.join(folder.name, "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    _folders.append(folder)
    carry(listening, lambda: words)
    return f"unix://{path}"


# Removed when this process ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []


def host() -> str:
    """Return the engine's address if ssh leads there; else an empty string."""
    found = os.environ.get("DOCKER_HOST", "")
    return found if found.startswith(SCHEME) else ""


def environment(site: str = "") -> dict[str, str]:
    """Return the environment by which the SDK finds the engine at an endpoint; by default the command's own engine."""
    found = site or host()
    if not found:
        return dict(os.environ)
    own = {**os.environ, "DOCKER_HOST": socket_to(found) if found.startswith(SCHEME) else found}
    return own | with_tls(found)


def with_tls(endpoint: str) -> dict[str, str]:
    """Return the variables by which Docker finds the certificates for an endpoint; empty if it has none."""
    folder = own_engine.certificates(endpoint)
    return {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": folder} if folder else {}
