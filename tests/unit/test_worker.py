"""Do clients that run in another process do what they do here, and is what it answers data?"""

import os
import pickle
import subprocess
import sys
import threading
from typing import get_type_hints

import msgspec
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.probes.cpu_speed import SpeedMeter
from replication_lab.workloads._colliding import (
    CollidingClient,
    HistoryRecorder,
    Readers,
    RegisterRecorder,
    add_one,
    increment,
    read_ahead_ms,
    run_colliding,
    transfer,
)
from replication_lab.workloads.ledger import LedgerClients
from replication_lab.world.docker import beside_nodes
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets.pinger import Pinger, greets


class Counter:
    """What a worker is asked to make; it counts from `first`."""

    def __init__(self, first: int):
        if first < 0:
            raise LabError("it counts from 0", "a number", "--first 0")
        self._next = first

    def count(self, times: int) -> list[int]:
        self._next += times
        return list(range(self._next - times, self._next))

    def tell(self, write) -> None:
        write(f"at {self._next}\n".encode())
        write(b"end\n")

    def fail(self) -> None:
        raise RuntimeError("a defect")

    def process(self) -> int:
        return os.getpid()


class Stuck:
    """What never answers."""

    def wait(self) -> None:
        threading.Event().wait()


@pytest.fixture
def started(monkeypatch):
    """Start the worker as a plain process, with this package's own path; `command` replaces it."""
    monkeypatch.setattr(beside_nodes.images, "ensure", lambda _names: None)
    popen = beside_nodes.subprocess.Popen

    def start(*command):
        own = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {beside_nodes.START}"]
        monkeypatch.setattr(beside_nodes.subprocess, "Popen", lambda _docker, **how: popen(command or own, **how))
        return beside_nodes.RemoteWorker("of a test")

    return start


def test_an_object_there_has_the_methods_of_its_kind(started):
    """With the types that it promises; the state stays there."""
    counter = started().make(Counter, 3)

    assert counter.count(2) == [3, 4] and counter.count(1) == [5]
    assert counter.process() != os.getpid()


def test_what_it_writes_comes_while_it_runs(started):
    """A line at a time, in its order."""
    lines = []
    started().make(Counter, 3).tell(write=lines.append)

    assert lines == [b"at 3\n", b"end\n"]


def test_errors_there_are_errors_here(started):
    """With what was expected, and the next step; a defect by its name."""
    at = started()
    with pytest.raises(LabError) as refused:
        at.make(Counter, -1)
    with pytest.raises(LabError, match="RuntimeError: a defect"):
        at.make(Counter, 0).fail()

    assert (refused.value.expected, refused.value.next_step) == ("a number", "--first 0")


def test_its_clock_is_known_here(started):
    """On one machine both have the same: what is found is the error, half of the fastest answer's time at most."""
    assert abs(started().ahead) < 0.05


@pytest.mark.parametrize("ends", ["import sys; sys.exit('no such network')", "print('what is no answer', flush=True)"])
def test_a_worker_that_ends_is_one_error(started, ends):
    """With the last line that it printed; also if it answers what is no answer."""
    with pytest.raises(LabError, match="the clients' container of a test has ended") as error:
        started(sys.executable, "-c", ends)

    assert "no such network" in error.value.found or "sys" not in ends


def test_a_call_that_waits_ends_with_the_worker(started):
    """What has no answer is not waited for."""
    at = started()
    waits, errors = at.make(Stuck), []

    def wait():
        try:
            waits.wait()
        except LabError as error:
            errors.append(error.found)

    waiting = threading.Thread(target=wait)
    waiting.start()
    at._process.kill()
    waiting.join(10)

    assert not waiting.is_alive()
    assert errors and "has ended" in errors[0]


def test_a_server_goes_there_with_one_password():
    """That of its user; the others stay here."""
    known = Server("db", ("db", 3306), dialects()["mariadb"], {"lab": "one", "root": "two"})
    # By another address it is still the same one, with all passwords.
    server = known.at(("10.1.0.2", 3306)).at(known.address).as_application()
    sent = pickle.dumps(server)
    there = pickle.loads(sent)

    assert b"two" not in sent and there.passwords == {"lab": "one"}
    assert (there.name, there.address, there.dialect) == ("db", ("db", 3306), server.dialect)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (run_colliding, [CollidingClient(1.0, 2.0, [3.5], {"deadlock": 1}, [1.5], [1.7])]),
        (Readers.read, [20_000, 20_000]),
        (read_ahead_ms, [-0.5, 40.1]),
        (CommitLatency.commits, [1.5]),
        (SpeedMeter.stop, None),
        (Pinger.ping, 40.2),
    ],
)
def test_what_clients_and_probes_return_comes_back_as_it_was(method, value):
    """As the type that the method is annotated with."""
    assert msgspec.json.decode(msgspec.json.encode(value), type=get_type_hints(method)["return"]) == value


def test_clients_and_probes_need_no_package_that_is_not_there(tmp_path):
    """The image has PyMySQL, msgspec and psutil; the modules of all that is sent there are imported without others."""
    lacks = "; ".join(
        f"sys.modules[{name!r}] = None" for name in ("docker", "numpy", "scipy", "rich", "requests", "lazy_loader")
    )
    clients = (LedgerClients, run_colliding, Readers, read_ahead_ms, add_one, increment, transfer)
    sent = (*clients, HistoryRecorder, RegisterRecorder, Server, CommitLatency, SpeedMeter, Pinger, greets)
    imports = "; ".join(f"import {module}" for module in sorted({each.__module__ for each in sent}))
    code = tmp_path / "code.zip"
    code.write_bytes(beside_nodes._code())
    own = f"import sys; sys.path[:0] = {[str(code), *sys.path]!r}; {lacks}; {imports}"

    subprocess.run([sys.executable, "-c", own], check=True)
