"""Containers of the emulated disk "spindle" for tests: its control, and connections to it."""

from contextlib import contextmanager

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.disks.spindle import Spindle, arguments

from tests.images.conftest import LABEL, PATIENCE_S, build, remove_container, until
from tests.images.nbd import Nbd

SPINDLE = "replication-lab/spindle"
MIB = 1 << 20


class DiskContainer:
    """One spindle in its container: its control, and new connections to it."""

    def __init__(self, client, limits, size=64 * MIB, **options):
        options |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "labels": {LABEL: "1"}}
        self.container = client.containers.run(
            SPINDLE, arguments(limits, size), detach=True, ports={"10809/tcp": ("127.0.0.1", None)}, **options
        )
        self.control = Spindle(self.container)
        self.wait()

    def wait(self):
        until(self.answers, "the disk to answer")

    def answers(self):
        self.container.reload()
        if self.container.status == "exited":
            pytest.fail(f"the disk ended:\n{self.container.logs().decode()}")
        try:
            return self.control.settings()
        except LabError:
            return None

    def connect(self):
        self.container.reload()
        return Nbd(("127.0.0.1", int(self.container.ports["10809/tcp"][0]["HostPort"])))

    def start_again(self):
        self.container.wait(timeout=PATIENCE_S)
        self.container.start()
        self.wait()


@contextmanager
def spindles(client):
    """Start spindles, ``start(limits, **options)``, and remove them at the end."""
    build(SPINDLE)
    made = []

    def start(limits, **options):
        made.append(DiskContainer(client, limits, **options))
        return made[-1]

    try:
        yield start
    finally:
        for each in made:
            remove_container(each.container)
