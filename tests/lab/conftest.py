"""Fixtures of the tests on real containers: the command as a user types it, and labs to break."""

import os
import secrets
import subprocess
import sys

import pytest

from harness import labs
from harness.world import catalogue, compose, images

ROOT = catalogue.ROOT


@pytest.fixture(scope="session", autouse=True)
def built(docker):
    """The images of the default engine and of the load, built once."""
    images.ensure(labs.image_names("mariadb", load=True))


@pytest.fixture(scope="session")
def command():
    """Run `lab …` as a process of its own; gives its CompletedProcess with text output."""

    def run(*arguments, seconds=60, **environment):
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture(scope="session")
def start_command():
    """Start `lab …` in the background; gives its Popen, killed at the end if a test forgot it."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "harness", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def name():
    """A lab's name that nobody else uses; what still bears it at the end is removed."""
    chosen = f"test-{secrets.token_hex(4)}"
    yield chosen
    compose.remove(chosen)


@pytest.fixture(scope="module")
def loaded(docker):
    """A semi-synchronous pair with the load container, its links without toxics, as an experiment gets it."""
    lab = compose.start(catalogue.topology("semisync"), "mariadb", f"test-{secrets.token_hex(4)}", load=True)
    yield lab
    with compose.signals_held():
        lab.down()


def things_of(project):
    """Containers, networks and volumes that bear a project's label, by name."""
    from harness.world import docker_engine

    client, only = docker_engine.client(), {"label": [f"{compose.PROJECT}={project}"]}
    found = [
        *client.containers.list(all=True, filters=only),
        *client.networks.list(filters=only),
        *client.volumes.list(filters=only),
    ]
    return [thing.name for thing in found]
