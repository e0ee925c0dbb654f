"""Two machines with a replicated disk for the tests: a lab of them, rows in it, clients that write until it dies."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from replication_lab.lab import up
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, clock, owners, signals
from replication_lab.world.docker import images
from replication_lab.world.machines import drbd

from tests.fakes.owners import dead
from tests.lab.conftest import things_of

HELD = "lab.held"
# Small: comparing them takes time.
DISK_SIZE = "256M"


@contextmanager
def two_machines(topology="drbd"):
    """Start two machines and prove them, on disks that have a volatile cache and no delays.

    As after `lab up`, whose process has ended: commands may change the roles of a lab that no process uses.
    """
    images.ensure(up.image_names("mariadb", topology=catalogue.topology(topology)))
    ended = dead()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_DISK_SIZE", DISK_SIZE)
        patch.setattr(owners, "owner", lambda: ended)
        lab = up.up(LabRequest(catalogue.topology(topology), "mariadb", f"test-{secrets.token_hex(4)}"))
    try:
        for peer in drbd.peers(lab).values():
            peer.disk.limit(Limits(write_cache=True))
        serving = lab.node(drbd.primary(lab).node).server()
        serving.execute(f"CREATE TABLE {HELD} (id INT PRIMARY KEY AUTO_INCREMENT, text TEXT)")
        yield lab
    finally:
        with signals.signals_held():
            lab.down()
    # Neither container, network nor volume, and with them no machine and no disk.
    assert things_of(lab.name) == []


def write(lab, node, rows=20):
    for number in range(rows):
        lab.node(node).server().execute(f"INSERT INTO {HELD} (text) VALUES ('{node}-{number}')")


def texts(lab, node):
    return {row["text"] for row in lab.node(node).server().rows(f"SELECT text FROM {HELD}")}


@contextmanager
def writers(lab, node, clients=4):
    """Let clients insert until their server has ended; the list receives what was acknowledged."""
    acknowledged = []

    def client(number):
        try:
            with lab.node(node).server().session() as connection, connection.cursor() as cursor:
                for count in range(1_000_000):
                    text = f"{number}-{count}-{secrets.token_hex(4)}"
                    cursor.execute(f"INSERT INTO {HELD} (text) VALUES ('{text}')")
                    acknowledged.append(text)
        except Exception:  # whatever it is called: the server is gone
            return

    with ThreadPoolExecutor(clients) as pool:
        for number in range(clients):
            pool.submit(client, number)
        clock.wait_until(lambda: len(acknowledged) > 50, "some rows")
        yield acknowledged


def wait_until_seen(nodes, name, state):
    """Look until a machine has this state: a first look gives up before a starved machine has started its program."""
    clock.wait_until(lambda: str(nodes.looks()[name]).startswith(state), f"{name} to be seen as {state}")


def cpu_seconds(lab, act):
    """Return the CPU seconds that both machines use while they are asked ten times."""
    before = lab.all_containers.cpu_seconds()
    for _ in range(10):
        act()
    return sum(lab.all_containers.cpu_seconds()[node.name] - before[node.name] for node in lab.topology.nodes)


@contextmanager
def cut(lab):
    for link in lab.topology.links:
        lab.link(link.name).cut()
    try:
        yield
    finally:
        for link in lab.topology.links:
            lab.link(link.name).enable()


def rates_of(serving):
    """Return the KiB a second that were copied between two readings, a second apart, and the progress at each."""
    rates, percents, (before, at) = [], [], (serving.status(), clock.timer())
    while True:
        clock.pause(1)
        found, now = serving.status(), clock.timer()
        if found.connection != "SyncSource":
            return rates, percents
        rates.append((before.out_of_sync_kib - found.out_of_sync_kib) / (now - at))
        percents.append(found.synced_percent)
        before, at = found, now


def milliseconds_a_commit(lab, node, commits=5):
    server = lab.node(node).server()
    began = clock.timer()
    for _ in range(commits):
        server.execute(f"INSERT INTO {HELD} (text) VALUES (REPEAT('x', 4096))")
    return (clock.timer() - began) * 1000 / commits
