"""What keeps the unit tests without Docker, network and waiting, and the fake world that they run experiments in."""

import functools
import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import docker
import msgspec
import pytest
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.cli import console
from replication_lab.faults.condition import LinkCondition
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import WAIT
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab import toxic
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.probes import round_trip
from replication_lab.report import summarise
from replication_lab.runner.asked_drills import planned, with_results
from replication_lab.runner.rounds import Run
from replication_lab.world import at_once, catalogue, clock, installing, journal, lab_files, lock, signals
from replication_lab.world.docker import compose_version, machine, own_engine, sites
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.client import EngineClient
from replication_lab.world.docker.machine import EngineMachine
from replication_lab.world.packets import packet_rules

from tests.fakes.docker_engine import Engine
from tests.fakes.link import FakeRoundTrip
from tests.fakes.world import FakeWorld
from tests.next_steps import messages
from tests.next_steps.printed import commands_of, why_refused

# The engine runs on this machine, as on most.
HERE = EngineMachine("Debian GNU/Linux 12 (bookworm)", "amd64", os.cpu_count() or 1, 8000, "6.1.0", engine_id="THIS")


def pytest_collection():
    """Collect no garbage while modules are imported."""
    gc.disable()


def pytest_collection_modifyitems(items):
    """Mark the tests that run experiments or drills in the fake world."""
    for item in items:
        if "fake_world" in getattr(item, "fixturenames", ()):
            item.add_marker("whole")


def pytest_collection_finish():
    """Exempt what was loaded for all tests from garbage collection, and let tests make more before it starts."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def no_world(tmp_path_factory):
    """Block Docker, sockets, installations and sleep: a test that tries to use them fails at once."""

    def forbidden(what):
        def refuse(*_arguments, **_options):
            raise AssertionError(f"a unit test used {what}")

        return refuse

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docker.DockerClient, "from_env", forbidden("the Docker engine"))
        patch.setattr(docker_engine, "run_as_root", forbidden("root's power"))
        patch.setattr(installing, "run_as_root", forbidden("root's power"))
        patch.setattr(packet_rules, "saved", lambda: "")
        patch.setattr(socket.socket, "connect", forbidden("a socket"))
        patch.setattr(time, "sleep", forbidden("sleep"))
        # A command that builds an image holds the machine's own locks for minutes.
        patch.setattr(lock, "FOLDER", tmp_path_factory.getbasetemp() / "locks")
        # A lab of this checkout that is up on several engines is none of a test's.
        patch.setattr(lab_files, "FOLDER", tmp_path_factory.getbasetemp() / "labs")
        patch.setattr(own_engine, "run_as_root", forbidden("root's power"))
        patch.setattr(own_engine, "elsewhere", lambda: "")
        patch.setattr(compose_version, "COMMAND", ("no-docker-here",))
        patch.setattr(machine, "facts", lambda: HERE)
        yield


@pytest.fixture(autouse=True, scope="session")
def nothing_left_behind():
    """Ask no Docker engine for what is left, unlike other sessions: no unit test can start a lab."""


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Clear caches, so that no test gets the answers of another one's engine."""
    remembered = (docker_engine.client, compose_version.ask, compose_version.version)
    for answer in remembered:
        answer.cache_clear()
    sites._used.clear()
    yield
    for answer in remembered:
        answer.cache_clear()


messages.record()


@pytest.fixture(autouse=True)
def next_steps_are_accepted(request):
    """Fail if an error that the test caused prints a command that the command line refuses as it is printed."""
    messages.PRINTED.clear()
    yield
    found = list(dict.fromkeys(messages.PRINTED))
    if to := os.environ.get("NEXT_STEPS"):
        _note(Path(to), request.node.nodeid.partition("[")[0], found)
    refused = {typed: why for *_, step in found for typed in commands_of(step) if (why := why_refused(typed))}
    assert refused == {}, "each next step can be typed as it is printed"


def _note(file, test, found):
    """Append the messages whose next step has a command of the lab to the notes of `python -m tests.next_steps`."""
    with file.open("ab") as notes:
        for module, line, step in found:
            if (message := messages.message_at(module, line)) and [*commands_of(step)]:
                notes.write(msgspec.json.encode([test, module, message.function, message.next]) + b"\n")


@pytest.fixture
def lab(monkeypatch, capsys):
    """Type a command at a terminal where y is the answer: (exit status, standard output, standard error)."""
    monkeypatch.setattr(console, "at_terminal", lambda: True)
    monkeypatch.setattr(console.click, "confirm", lambda *_, **__: True)

    def typed(*arguments):
        monkeypatch.setattr(sys, "argv", ["lab", *arguments])
        handlers = [(number, signal.getsignal(number)) for number in signals.HANDLED]
        try:
            cli.main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
        said = capsys.readouterr()
        return status, said.out, said.err

    return typed


@pytest.fixture
def runs(monkeypatch, tmp_path) -> Path:
    """Return a folder runs/ of this test's own."""
    folder = tmp_path / "runs"
    monkeypatch.setattr(catalogue, "RUNS", folder)
    # A test's record need not outlive a power cut.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(running, "Journal", functools.partial(journal.Journal, runs=folder))
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Write reports without the page, which takes longer than a whole run in a fake world."""
    monkeypatch.setattr("replication_lab.report.page.render", lambda *_: "")


@pytest.fixture
def fake_world(monkeypatch):
    """Make a FakeWorld whose clock is the harness's."""

    def make(**troubles) -> FakeWorld:
        world = FakeWorld(**troubles)
        for name in ("timer", "pause", "wait_until"):
            monkeypatch.setattr(clock, name, getattr(world.clock, name))
        monkeypatch.setattr(at_once, "of_each", world.clock.of_each)
        # Its connections are threads, whose time is their own in the fake world.
        monkeypatch.setattr(round_trip, "sum_of_rates", lambda link, _body, _trip: link.sum_of_rates())
        return world

    return make


@pytest.fixture
def ran(fake_world, runs):
    """Run an experiment in a fake world, without the cost of drawing a report: (summary, record, world)."""

    def run(experiment, engines=("mariadb",), preset="quick", seed=7, noise=WAIT, tell=lambda _line: None, **troubles):
        world = fake_world(**troubles)
        book = journal.Journal(experiment.name, runs=runs)
        drills = {engine: planned(experiment, engine) for engine in engines}
        Run(RunRequest(experiment, list(engines), preset, seed, noise), book, world, tell, drills).run()
        return summarise(experiment, with_results(book.folder, book.record)), book.record, world

    return run


@pytest.fixture(scope="session")
def _undisturbed_runs():
    return {}


@pytest.fixture
def undisturbed(ran, _undisturbed_runs):
    """Return (summary, record) of `ran` in a world without trouble, run once for all tests that only read it."""

    def run(experiment, preset="quick", **options):
        key = (id(experiment), preset, *options.items())
        if key not in _undisturbed_runs:
            # The experiment is kept, so that no other one gets its id.
            _undisturbed_runs[key] = (experiment, *ran(experiment, preset=preset, **options)[:2])
        return _undisturbed_runs[key][1:]

    return run


@pytest.fixture
def brief():
    """Return the smallest plan that can decide a claim, with the semi-sync experiment's smallest sizes."""
    sizes = {"near_rows": 20, "near_seconds": 0, "far_rows": 6, "far_seconds": 0.15, "seen_rows": 6}
    return Preset("quick", 2, 2, sizes)


@pytest.fixture
def latency():
    """Make a toxic of these latencies in ms, downstream and upstream."""

    def make(down: int, up: int, name: str = "far", jitter: int = 0) -> toxic.Toxic:
        bodies = [
            ToxicBody(f"{name}-{way}", "latency", f"{way}stream", {"latency": ms, "jitter": jitter})
            for way, ms in (("down", down), ("up", up))
        ]
        return toxic.Toxic(name, "a test's", tuple(bodies))

    return make


@pytest.fixture
def conditioned(monkeypatch):
    """Return a function that makes the fault of a link of the fake world: another condition, or a toxic in addition."""
    monkeypatch.setattr("replication_lab.faults._links.RoundTrip", FakeRoundTrip)
    return lambda link, *given, **settings: LinkCondition(
        SimpleNamespace(link=lambda _: link), ["a-b"], *given, **settings
    )


@pytest.fixture
def refused():
    """Call something that must be refused; its LabError, checked to say what was found and what was expected."""

    def call(act, *arguments, **options) -> LabError:
        with pytest.raises(LabError) as told:
            act(*arguments, **options)
        assert told.value.found and told.value.expected, "an error says what was found and what was expected"
        return told.value

    return call


@pytest.fixture
def interruptible():
    """Let SIGINT interrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def engine(monkeypatch):
    """Let an engine answer: `engine(version=…)`; or raise an error when it is looked for."""

    def answers(found=None, **parts):
        found = found or Engine(**parts)

        def look(**_options):
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(EngineClient, "from_env", look)
        monkeypatch.setattr(
            own_engine, "answers", lambda: not isinstance(found, Exception) or "Permission" in str(found)
        )
        return found

    return answers
