"""Fixtures of the tests on real containers: the command as a user types it, and labs to break."""

import functools
import os
import secrets
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import up
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes.galera import wait_until_synced
from replication_lab.world import catalogue, owners, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, labels, leftovers, project

from tests.lab import attaching

ROOT = catalogue.ROOT
# The program for tests of what a command does, not of its figures: beside other tests machines are noisy.
NOISE_IGNORED = "tests.lab.noise_ignored"
# It hangs when it takes longer: on a slow machine, too, which moves a cluster's service within two minutes.
COMMAND_SECONDS = 300


@pytest.fixture(scope="session", autouse=True)
def built(docker):
    """Build the images of the default engine and of the load, once."""
    images.ensure(up.image_names("mariadb", load=True))


@pytest.fixture(scope="session")
def command():
    """Run `lab …` as a process of its own; gives its CompletedProcess with text output. `module` is the program's.

    Without a terminal, a command that removes a lab is asked nothing, and needs --yes.
    """

    def run(*arguments, stdin="", module="replication_lab", **environment):
        yes = ["--yes"] if arguments[0] in ("down", "clean") else []
        return subprocess.run(
            [sys.executable, "-m", module, *arguments, *yes],
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture(scope="session")
def start_module():
    """Start a module of Python's in the background; gives its Popen, killed at the end if a test forgot it."""
    started = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def start_command(start_module):
    """Start `lab …` in the background."""
    return functools.partial(start_module, "replication_lab")


@pytest.fixture
def name():
    """Return a unique name for a lab; remove what still has it at the end."""
    chosen = f"test-{secrets.token_hex(4)}"
    yield chosen
    leftovers.remove(chosen)


@pytest.fixture
def started():
    """Start Compose projects of users by their folder; gives each one's name. All are removed at the end."""
    with ExitStack() as stack:

        def start(folder):
            name = f"{Path(folder).name}-{secrets.token_hex(3)}"
            stack.enter_context(attaching.running(folder, name))
            return name

        yield start


@pytest.fixture
def attach(command):
    """Run `lab attach` on a project of a folder."""
    return lambda folder, name, *others: command(*attaching.options(folder, name, *others), **attaching.ENVIRONMENT)


@pytest.fixture(scope="module")
def loaded(docker):
    """Yield a semi-synchronous pair with the load container, its links without toxics, as an experiment gets it."""
    lab = project.start(
        LabRequest(catalogue.topology("semisync"), "mariadb", f"test-{secrets.token_hex(4)}", load=True)
    )
    yield lab
    with signals.signals_held():
        lab.down()


NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="session")
def cluster(docker):
    """Yield three Galera nodes with a small write-set cache, their links without toxics, for all tests in turn."""
    topology = catalogue.topology("galera")
    images.ensure(up.image_names("mariadb", load=True, topology=topology))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_GCACHE", "8M;gcache.page_size=8M")
        lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", load=True))
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def whole(cluster, make_whole):
    """Yield the cluster with all links on and all nodes Synced, before a test and after it."""
    make_whole(cluster)
    yield cluster
    make_whole(cluster)


@pytest.fixture(scope="session")
def make_whole():
    return _make_whole


def _make_whole(lab):
    """Start what was killed, switch on what was cut, and wait until all nodes are Synced."""
    lab.refresh()
    for link in lab.topology.links:
        lab.link(link.name).enable()
        clear(lab.link(link.name))
    for node in NODES:
        if lab.node(node).container.status != "running":
            lab.node(node).start_again()
    for node in NODES:
        wait_until(lambda node=node: lab.node(node).is_healthy(), f"{node} healthy")
    lab.refresh()
    wait_until_synced([lab.node(node).server() for node in NODES], 3)


def read_until(process, text):
    """Return the lines that a command printed, up to the first that contains `text`; fail with all if none does."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came; the command ended with {process.wait()}:\n{''.join(lines)}")


def labs_of(process):
    """Return the labs that a process made, as the engine knows them."""
    marks = {name: map(owners.parsed, found) for name, found in labels.owners().items()}
    return {name for name, found in marks.items() if any(one and one.process == str(process.pid) for one in found)}


def things_of(project):
    """Return the containers, networks and volumes with a project's label, by name."""
    from replication_lab.world.docker import engine

    client, only = engine.client(), {"label": [f"{labels.PROJECT}={project}"]}
    found: list[Any] = [
        *client.containers.list(all=True, filters=only, ignore_removed=True),
        *client.networks.list(filters=only),
        *client.volumes.list(filters=only),
    ]
    return sorted(thing.name for thing in found)
