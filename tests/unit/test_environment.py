"""Is the Python environment made while the engine starts, and is an error of either told, with nothing left running?"""

import re
import subprocess
import sys
import threading
import time

import environment
import pytest
from replication_lab.model.core.command import STARTING_LABS
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world.docker import base_image, own_engine

SECONDS = 10


@pytest.fixture
def engine(monkeypatch):
    """Return what was done to a machine's engine; `engine.answers` says whether it runs already."""

    class Engine:
        answers, elsewhere, is_first = False, "", True

        def __init__(self):
            self.done = []

    found = Engine()
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("LAB_IMAGES", raising=False)
    monkeypatch.setattr(own_engine, "answers", lambda: found.answers)
    monkeypatch.setattr(own_engine, "elsewhere", lambda: found.elsewhere)
    monkeypatch.setattr(own_engine, "provide", lambda: found.done.append("engine"))
    monkeypatch.setattr(base_image, "is_first", lambda: found.is_first)
    monkeypatch.setattr(base_image, "make", lambda: found.done.append("base"))
    return found


def test_the_environment_and_the_engine_are_made_at_the_same_time(engine, monkeypatch):
    """Each waits until the other has begun."""
    both = threading.Barrier(2, timeout=SECONDS)
    monkeypatch.setattr(environment, "_fill", lambda _steps: both.wait())
    monkeypatch.setattr(own_engine, "provide", both.wait)

    environment._make(["up", "semisync"])

    assert engine.done == ["base"]


@pytest.mark.parametrize(
    ("command", "done"),
    [
        *([[name], ["engine", "base"]] for name in STARTING_LABS),
        (["up", "--help"], []),
        (["ask", "-h"], []),
        (["status"], []),
        ([], []),
    ],
)
def test_only_a_command_that_starts_a_lab_touches_the_engine(engine, monkeypatch, command, done):
    """`lab --help` in a new checkout installs no Docker."""
    monkeypatch.setattr(environment, "_fill", lambda _steps: None)
    environment._make(command)

    assert engine.done == done


def test_an_engine_elsewhere_is_left_alone(engine, monkeypatch):
    """Docker Desktop, rootless Docker, an engine on another host."""
    engine.elsewhere = "unix:///run/user/1000/docker.sock"
    environment._prepare_engine()
    engine.elsewhere = ""
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    environment._prepare_engine()

    assert not engine.done


def test_the_base_is_made_only_for_the_first_images(engine):
    """It is not needed where there are images."""
    engine.is_first = False
    environment._prepare_engine()

    assert engine.done == ["engine"]


@pytest.mark.parametrize(
    ("variable", "released", "built"),
    [
        ("", False, True),
        ("none", False, True),
        ("registry.example/lab", False, False),
        ("", True, False),
        ("none", True, True),
    ],
)
def test_a_registry_has_images_without_their_base(monkeypatch, tmp_path, variable, released, built):
    """Yours, or that of the release; with none the images are built here."""
    monkeypatch.setattr(base_image, "RELEASED", tmp_path / "released.digests")
    if released:
        base_image.RELEASED.touch()
    monkeypatch.setenv("LAB_IMAGES", variable)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=""))

    assert base_image.is_first() == built


def test_an_engine_that_cannot_be_had_ends_the_other_part(engine, monkeypatch, refused):
    """The error is the engine's, and the libraries are not waited for."""
    begun = threading.Event()

    def fill(steps):
        waiting = steps.begin("sleep", "60")
        begun.set()
        waiting.wait()

    def provide():
        begun.wait(SECONDS)
        raise LabError("no engine", "one")

    monkeypatch.setattr(environment, "_fill", fill)
    monkeypatch.setattr(own_engine, "provide", provide)
    began = time.monotonic()

    assert refused(environment._make, ["up"]).found == "no engine"
    assert time.monotonic() - began < SECONDS


def test_libraries_that_cannot_be_installed_are_told_once_the_engine_is_there(engine, monkeypatch, refused):
    """An installation by apt is not broken off."""

    def fill(_steps):
        raise LabError("no libraries", "some")

    monkeypatch.setattr(environment, "_fill", fill)

    assert refused(environment._make, ["up"]).found == "no libraries"
    assert engine.done == ["engine", "base"]


def test_nothing_is_begun_after_a_stop():
    """A thread that is between two commands then starts no other one."""
    steps = environment.Commands()
    steps.stop()
    with pytest.raises(LabError):
        steps.begin("true")


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("global.index-url='https://index.example/simple'", {"UV_DEFAULT_INDEX": "https://index.example/simple"}),
        ("global.timeout='60'\n:env:.default-timeout='180'", {"UV_HTTP_TIMEOUT": "180"}),
        (":env:.cert='/of/env'\nglobal.cert='/of/file'", {"SSL_CERT_FILE": "/of/env"}),
        ("install.trusted-host='a.example\\nb.example'", {"UV_INSECURE_HOST": "a.example b.example"}),
        ("global.find-links='/one /two'", {"UV_FIND_LINKS": "/one,/two"}),
        (
            "global.extra-index-url='https://more.example'",
            {"UV_INDEX": "https://more.example", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        ("global.disable-pip-version-check='1'\nwarning: something", {}),
    ],
)
def test_uv_takes_the_settings_of_pip(listed, found):
    """A company's index and certificates are set for pip, and uv reads nothing of them."""
    assert environment.uv_settings(listed) == {"UV_SYSTEM_CERTS": "true", **found}


def test_the_environment_is_made_by_a_python_without_libraries():
    """-S leaves out site-packages, and -I the variables and the folder of the user."""
    harness = catalogue.ROOT / "harness"
    program = f"import sys; sys.path.insert(0, {str(harness)!r}); import environment"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr


def test_the_installer_itself_is_locked():
    """One version, with the digest of each of its files."""
    listed = environment.UV.read_text()

    assert re.match(r"uv==\d+\.\d+\.\d+ ", listed) and listed.count("==") == 1
    assert len(re.findall("--hash=sha256:[0-9a-f]{64}", listed)) > 5
