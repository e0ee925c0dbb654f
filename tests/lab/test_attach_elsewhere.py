"""Is a server without a published port reached where this machine has no way to its container's address?

An address of the engine that is not this machine's own stands for another machine: nothing is then tried from here.
"""

import contextlib
import shutil
import socket
import threading
from pathlib import Path

import pytest

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SOCKET = "/var/run/docker.sock"
# On loopback, and not what the lab takes for this machine.
HOST = "127.0.0.2"


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _serve(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(SOCKET)
            for ends in ((client, engine), (engine, client)):
                threading.Thread(target=_copy, args=ends, daemon=True).start()


@pytest.fixture
def elsewhere():
    """Yield DOCKER_HOST for the engine by another address."""
    attaching.build_for_public_projects()
    with socket.create_server((HOST, 0)) as listening:
        threading.Thread(target=_serve, args=(listening,), daemon=True).start()
        yield f"tcp://{HOST}:{listening.getsockname()[1]}"


def test_a_project_is_attached_through_the_machine_of_its_engine(command, elsewhere, tmp_path, started):
    """Its database has no published port; the account, the condition and the state are all read that way."""
    folder = Path(shutil.copytree(attaching.PROJECTS / "nextcloud", tmp_path / "nextcloud"))
    name = started(folder)
    before = attaching.settings(name)
    there = {**attaching.ENVIRONMENT, "DOCKER_HOST": elsewhere}
    answer = command(*attaching.options(folder, name, "--link", "app:db", "--rtt", "40ms"), **there)

    assert answer.returncode in (0, 3), answer.stderr
    assert "verified: link app-db is 40ms" in answer.stderr
    assert "verified: db: healthy, and replicating as before" in answer.stderr
    detached = command("detach", "--lab", name, **there)
    assert detached.returncode == 0, detached.stderr
    assert attaching.settings(name) == before
