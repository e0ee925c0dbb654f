"""The way to ports of an engine on another machine, where they are published on that machine's loopback only.

A container in the network of the engine's machine runs commands that connect to a port; the engine's own connection
(tcp:// with or without TLS, ssh://) carries what they send. The container ends with this process, however it ends.
"""

import socket
import subprocess
import threading
import uuid

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import images

IMAGE = "toxiproxy"
_guard = threading.Lock()


class _Gateway:
    """The container in which connections are made; `name` is its own."""

    def __init__(self) -> None:
        images.ensure([IMAGE])
        self.name = f"replication-lab-reach-{uuid.uuid4().hex[:12]}"
        options = ("--rm", "--interactive", "--network", "host", "--log-driver", "none", "--entrypoint", "/reach")
        # The engine closes the command's standard input when this process, which holds the other end, is gone.
        self._process = _docker("run", "--name", self.name, *options, images.PREFIX + IMAGE, output=subprocess.PIPE)
        if not self._process.stdout or self._process.stdout.readline() != b"ready\n":
            raise LabError(
                "the container that leads to published ports of the engine's machine does not run",
                f"{images.PREFIX}{IMAGE} in that machine's network",
                f"docker run --rm --network host --entrypoint /reach {images.PREFIX}{IMAGE} 127.0.0.1:22",
            )

    def runs(self) -> bool:
        return self._process.poll() is None


class _Way:
    """A port on this machine's loopback that leads to an address on the engine's machine."""

    def __init__(self, host: str, port: int):
        self._target = f"{host}:{port}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        carriers: list[subprocess.Popen[bytes]] = []
        while True:
            connection, _ = self._listening.accept()
            carriers = [each for each in carriers if each.poll() is None]
            with connection:
                carriers.append(
                    _docker("exec", "--interactive", _gateway().name, "/reach", self._target, both=connection)
                )


_gateways: list[_Gateway] = []
_ways: dict[tuple[str, int], _Way] = {}


def _gateway() -> _Gateway:
    """Return the running container, started again if the engine was."""
    with _guard:
        if not _gateways or not _gateways[-1].runs():
            _gateways.append(_Gateway())
        return _gateways[-1]


def address(host: str, port: int) -> tuple[str, int]:
    """Return the address on this machine's loopback that leads to one on the engine's machine, for this process's life.

    A refused connection is accepted here, and ends at once.
    """
    _gateway()
    with _guard:
        if (host, port) not in _ways:
            _ways[host, port] = _Way(host, port)
        return _ways[host, port].address


def _docker(
    *words: str, output: int = subprocess.DEVNULL, both: socket.socket | None = None
) -> "subprocess.Popen[bytes]":
    """Start a command of Docker's client in a session of its own, which Ctrl-C does not interrupt."""
    given = both.fileno() if both else subprocess.PIPE
    return subprocess.Popen(
        ["docker", *words],
        stdin=given,
        stdout=given if both else output,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
