"""The machine of an engine that is not this one: its published ports, and its files of /proc and /sys.

Ports are published on that machine's loopback only. A container of the lab, in the network and among the processes of
that machine, connects to them and reads the files; the engine's own connection (tcp:// with or without TLS, ssh://)
carries both. The container ends with this process, however it ends.
"""

import json
import socket
import threading
import uuid
from collections.abc import Sequence

from replication_lab.model.core.errors import LabError
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, machine
from replication_lab.world.docker.carried import Carried
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.machine_files import HERE, MachineFiles

IMAGE = "toxiproxy"
START_SECONDS = 20
# It reads what any user may read, and with SYS_PTRACE what processes made disks do.
OPTIONS = (
    *("--rm", "--interactive", "--network", "host", "--pid", "host", "--cgroupns", "host", "--read-only"),
    *("--cap-drop", "ALL", "--cap-add", "SYS_PTRACE", "--security-opt", "no-new-privileges"),
    *("--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro", "--log-driver", "none", "--entrypoint", "/reach"),
)


class _Hand:
    """The container on the engine's machine; `name` is its own."""

    def __init__(self) -> None:
        images.ensure([IMAGE])
        self.name = f"replication-lab-reach-{uuid.uuid4().hex[:12]}"
        run = ("run", "--name", self.name, *OPTIONS, images.PREFIX + IMAGE)
        self.talk = Conversation("the engine's machine", *run)
        wait_until(self.answers, "the container on the engine's machine to answer", START_SECONDS, hint="./lab doctor")

    def answers(self) -> bool:
        """Return whether it answers; LabError if it has ended."""
        try:
            return self.talk.ask() == "{}"
        except LabError:
            if self.talk.has_ended:
                raise
            return False


_guard = threading.RLock()
_hands: list[_Hand] = []
# The address on this machine's loopback that leads to one on the engine's machine.
_ways: dict[tuple[str, int], tuple[str, int]] = {}


def _hand() -> _Hand:
    """Return the running container, started again if the engine was."""
    with _guard:
        if not _hands or _hands[-1].talk.has_ended:
            _hands.append(_Hand())
        return _hands[-1]


def address(host: str, port: int) -> tuple[str, int]:
    """Return the address on this machine's loopback that leads to one on the engine's machine, for this process's life.

    A refused connection is accepted here, and ends at once.
    """
    _hand()
    with _guard:
        if (host, port) not in _ways:
            listening = socket.create_server(("127.0.0.1", 0))
            Carried(listening, lambda: ["docker", "exec", "--interactive", _hand().name, "/reach", f"{host}:{port}"])
            _ways[host, port] = listening.getsockname()
        return _ways[host, port]


def files(paths: Sequence[str]) -> MachineFiles:
    """Return the files on the engine's machine that match these paths, as images/toxiproxy/reach reads them."""
    with _guard:
        return MachineFiles(json.loads(_hand().talk.ask(" ".join(paths))))


def machine_files(*paths: str) -> MachineFiles:
    """Return the files of the engine's machine that match these paths: this machine's own, if the engine runs here."""
    return files(paths) if machine.facts().elsewhere else HERE
