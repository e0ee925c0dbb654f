"""Do links work while Testcontainers' Ryuk runs, and is nothing left of a test process that is killed?

A program that speaks Ryuk's protocol stands for it (vendor_ryuk); RYUK_CONTAINER_IMAGE names another image for it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from replication_lab.world import clock
from replication_lab.world.docker import engine, images
from testcontainers.core.labels import LABEL_SESSION_ID

from tests.lab import attaching
from tests.lab.test_testcontainers import ECHO, left

RYUK = os.environ.get("RYUK_CONTAINER_IMAGE", "vendor.example/ryuk:1")
# Ryuk waits for so long after the last test process has ended.
AGAIN, SECONDS = "3s", 60
LINKED = f'''
import os, signal, socket, sys
from replication_lab.testcontainers import proved_link
from testcontainers.core.container import DockerContainer
from testcontainers.core.labels import SESSION_ID
from testcontainers.core.network import Network

print(SESSION_ID, flush=True)
with Network() as network:
    server = DockerContainer("replication-lab/sidecar").with_network(network)
    server.with_kwargs(entrypoint=["perl", "-e", """{ECHO}"""], healthcheck={{"test": ["NONE"]}})
    with server, proved_link(server, 7000, "85ms") as link:
        with socket.create_connection((link.host, link.port), timeout=5) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
'''
ATTACHED = """
import os, signal, sys
from replication_lab.testcontainers import lab_from
from testcontainers.compose import DockerCompose

with DockerCompose(sys.argv[1]) as compose, lab_from(compose, "app:db", rtt="40ms"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", autouse=True)
def ryuk(built):
    """Build the program that stands for Ryuk, if no other image was named."""
    images.ensure(["sidecar", "clients"])
    if "RYUK_CONTAINER_IMAGE" not in os.environ:
        attaching.build_ryuk(RYUK)


def session(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a user's process of tests with Ryuk."""
    given = {"RYUK_CONTAINER_IMAGE": RYUK, "RYUK_RECONNECTION_TIMEOUT": AGAIN, **environment}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def of_session(number: str) -> list[str]:
    """Return the containers and networks that a session of Testcontainers still has, its Ryuk included."""
    client, only = engine.client(), {"label": f"{LABEL_SESSION_ID}={number}"}
    ryuk = {"name": f"testcontainers-ryuk-{number}"}
    containers = [client.containers.list(all=True, filters=each, ignore_removed=True) for each in (only, ryuk)]
    names = [each.name for found in containers for each in found]
    return names + [each.name for each in client.networks.list(filters=only)]


def test_a_link_is_proved_while_ryuk_runs():
    """Nothing of the session is left at the end, Ryuk itself included."""
    ended = session(LINKED, "to the end")

    assert ended.returncode == 0, ended.stderr
    clock.wait_until(lambda: not of_session(ended.stdout.strip()), "Ryuk to end", SECONDS, every=0.2)


def test_ryuk_removes_the_link_of_a_process_that_is_killed():
    """The Toxiproxy and its echo go with the user's own container and network, without a command of the lab."""
    ended = session(LINKED, "killed")
    number = ended.stdout.strip()

    assert ended.returncode == -9, ended.stderr
    there = of_session(number)
    assert f"testcontainers-ryuk-{number}" in there and len([each for each in there if each in left()]) == 2, there
    clock.wait_until(lambda: not of_session(number), "Ryuk to remove the session's containers", SECONDS, every=0.2)
    assert not {*there} & {*left()}


def test_a_project_whose_test_process_is_killed_is_told_and_restored(command, name, tmp_path):
    """Ryuk does not know the containers of Compose: the project stays attached, until the printed command."""
    folder = Path(shutil.copytree(attaching.PROJECTS / "shop", tmp_path / "shop"))
    with attaching.running(folder, name):
        before = attaching.settings(name)
        ended = session(ATTACHED, str(folder), COMPOSE_PROJECT_NAME=name, **attaching.ENVIRONMENT)
        assert ended.returncode == -9, ended.stderr

        told = command("status", "--lab", name)
        assert told.returncode == 0 and "app-db" in told.stdout, told.stdout + told.stderr
        refused = command(*attaching.options(folder, name, "--link", "app:db"), **attaching.ENVIRONMENT)
        assert refused.returncode == 2 and f"{name} is attached already" in refused.stderr
        assert attaching.next_command(refused.stderr) == f"./lab detach --lab {name}"
        attaching.restored(command, folder, name, before)
