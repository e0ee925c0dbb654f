"""Is the machine left alone where it has an engine, and an engine installed only where that is meant?"""

import contextlib
import json
import os
import platform
import re
import shutil
import socket
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from docker.errors import DockerException
from replication_lab.cli import Deferred, cli
from replication_lab.world import installing
from replication_lab.world.docker import by_ssh, compose_version, own_engine
from replication_lab.world.docker import engine as docker_engine

Usage = namedtuple("Usage", "total used free")
PERMISSION = DockerException(
    "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
)
NOBODY = DockerException("Error while fetching server API version: FileNotFoundError(2, 'No such file or directory')")
# As it is: in other tests it is replaced.
ELSEWHERE = own_engine.elsewhere
TRIXIE = Path(docker_engine.__file__).parent / "trixie-source.sh"
DEBIAN = "docker.io containerd docker-cli docker-compose docker-buildx"
INSTALL = "env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"


@pytest.fixture
def compose(monkeypatch):
    """Set the answer of `docker compose version`; None stands for no such command."""

    def says(version, status=0):
        answered = SimpleNamespace(communicate=lambda timeout: (f"{version}\n", None), returncode=status)
        if version is not None:
            monkeypatch.setattr(compose_version.subprocess, "Popen", lambda command, **options: answered)

    return says


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a machine of this release without an engine, as the commands that would be run as root."""

    def of(id_, version, installed=()):
        ran, missing = [], {"dockerd", "dpkg-query"} - set(installed)
        monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": id_, "VERSION_ID": version})
        monkeypatch.setattr(shutil, "which", lambda name, **_: None if name in missing else f"/usr/bin/{name}")
        for room in (installing, own_engine):
            monkeypatch.setattr(room, "run_as_root", lambda command: ran.append(" ".join(map(str, command))))
        monkeypatch.setattr(installing, "RECORD", tmp_path / "added")
        monkeypatch.setattr(own_engine, "wait_until", lambda *_, **__: None)
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.setenv("LAB_INSTALL", "yes")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        return ran

    return of


def made(ran):
    """Return the commands that change the machine, without those that record what they add, and the last one."""
    *changes, last = [command for command in ran if installing.APPEND not in command]
    return changes, last


# By systemd where it runs, as on the machine of this test or not.
START = re.compile(r"systemctl start docker$|sh -c exec setsid \S*dockerd --pidfile ")


# --- finding an engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["25.0.0", "26.1.5+dfsg1", "29.0.0-rc.1", "dev"])
def test_an_engine_that_is_new_enough_is_taken(engine, compose, version):
    """As it is: a distribution's suffix, a release candidate, and an own build without a number are versions too."""
    found = engine(version=version)
    compose("2.26.1-4")

    assert docker_engine.ensure() is found


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "24.0.7"])
def test_an_old_engine_is_refused_and_never_replaced(engine, refused, version):
    """Found, needed, and that upgrading is for its owner; nothing is installed."""
    engine(version=version)
    error = refused(docker_engine.ensure)

    assert error.found == f"the Docker engine is version {version}"
    assert "25 or newer" in error.expected and "never replaces" in error.expected


@pytest.mark.parametrize(
    ("version", "found"), [("2.20.3", "docker compose is 2.20.3"), (None, "docker compose is not installed")]
)
def test_an_old_or_missing_compose_is_refused(engine, compose, refused, version, found):
    """The engine may be new while its Compose is not."""
    engine()
    compose(version)
    error = refused(docker_engine.ensure)

    assert error.found == found and "2.24.4 or newer" in error.expected


@pytest.mark.parametrize(("command", "asks"), [("up", True), ("ask", True), ("status", False)])
def test_a_command_that_starts_a_lab_asks_compose_before_it_is_imported(monkeypatch, command, asks):
    """Others do not ask."""
    seen = []
    monkeypatch.setattr(compose_version, "ask", lambda: seen.append("asked"))
    deferred = cli.commands[command]
    assert isinstance(deferred, Deferred)
    load = deferred.load
    monkeypatch.setattr(deferred, "load", lambda: seen.append("imported") or load())
    with pytest.raises(click.exceptions.Exit):
        cli.commands[command].make_context(command, ["--help"], help_option_names=["-h", "--help"])

    assert seen == (["asked", "imported"] if asks else ["imported"])


def test_compose_is_asked_again_if_it_was_not_there_at_first(compose):
    """Commands that start a lab ask before Docker's client is imported; an installation may come between."""
    assert compose_version.ask() is None
    compose("2.26.1")

    assert compose_version.version() == "2.26.1"


@pytest.mark.parametrize(("said", "status"), [("docker: 'compose' is not a docker command.", 1), ("", 0)])
def test_a_compose_that_fails_or_says_nothing_is_not_installed(compose, refused, said, status):
    """`docker` without the plugin ends with an error."""
    compose(said, status)

    assert refused(compose_version.version).found == "docker compose is not installed"


def test_no_permission_on_the_socket_is_told_apart_from_no_engine(engine, refused):
    """An engine that may not be asked is there: nothing is started, and the error names the group."""
    engine(PERMISSION)
    error = refused(docker_engine.ensure)

    assert "permission denied" in error.found
    assert "usermod -aG docker" in error.next_step


def test_commands_that_only_look_never_start_an_engine(engine, refused):
    """`lab status` on a machine without an engine says so."""
    engine(NOBODY)
    error = refused(docker_engine.client)

    assert error.found == "the Docker engine does not answer"
    assert "./lab up" in error.next_step


def test_the_engine_of_the_users_context_is_used_and_nothing_installed(engine, monkeypatch, refused):
    """Docker Desktop and rootless Docker listen elsewhere; a context that does not answer is not replaced either."""
    engine(NOBODY)
    monkeypatch.setenv("DOCKER_HOST", "to be restored")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr(own_engine, "elsewhere", lambda: "unix:///run/user/1000/docker.sock")

    assert refused(docker_engine.ensure).found == "the Docker engine does not answer"
    assert os.environ["DOCKER_HOST"] == "unix:///run/user/1000/docker.sock"


def test_somebody_elses_engine_is_never_started(engine, refused, monkeypatch):
    """DOCKER_HOST names an engine elsewhere; where it does not answer, nothing is installed here."""
    engine(NOBODY)
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")

    assert refused(docker_engine.ensure).found == "the Docker engine does not answer"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nOK", True),
        (b"HTTP/1.0 500 Internal Server Error\r\n\r\n", False),
        (b"", False),
        (FileNotFoundError(2, "No such file or directory"), False),
        (TimeoutError("timed out"), False),
        # It is there, and not started a second time: the error about the permission comes later.
        (PermissionError(13, "Permission denied"), True),
    ],
)
def test_an_engine_answers_if_it_says_so_on_its_socket(monkeypatch, said, found):
    """Asked without Docker's library, which the launcher does not have yet."""

    class Socket(contextlib.nullcontext):
        def __init__(self, family):
            super().__init__(self)

        def settimeout(self, seconds):
            assert 0 < seconds < 60

        def connect(self, path):
            assert path == "/var/run/docker.sock"
            if isinstance(said, Exception):
                raise said

        def sendall(self, request):
            assert request.startswith(b"GET /_ping ")

        def recv(self, size):
            return said[:size]

    monkeypatch.setattr(own_engine, "socket", SimpleNamespace(socket=Socket, AF_UNIX=socket.AF_UNIX))

    assert own_engine.answers() is found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("unix:///var/run/docker.sock\n", ""),
        ("unix:///run/user/1000/docker.sock\n", "unix:///run/user/1000/docker.sock"),
        (FileNotFoundError(2, "docker"), ""),
    ],
)
def test_a_context_that_names_another_engine_is_told(monkeypatch, said, found):
    """Without the command `docker` there is none."""

    def run(command, **_options):
        if isinstance(said, Exception):
            raise said
        return SimpleNamespace(stdout=said)

    monkeypatch.setattr(own_engine.subprocess, "run", run)

    assert ELSEWHERE() == found


def test_the_certificates_for_an_endpoint_are_those_of_the_context_that_names_it(monkeypatch):
    """A context without a certificate of the client's has none; both Docker's command and the SDK get them."""
    there = {"TLSMaterial": {"docker": ["ca.pem", "cert.pem", "key.pem"]}, "Storage": {"TLSPath": "/tls/db2"}}
    contexts = [
        {"Endpoints": {"docker": {"Host": "tcp://db1:2376"}}, "TLSMaterial": {}, "Storage": {}},
        {"Endpoints": {"docker": {"Host": "tcp://db2:2376"}}, **there},
    ]
    monkeypatch.setattr(own_engine, "_said", lambda verb, *_: "db1 db2" if verb == "ls" else json.dumps(contexts))
    own_engine.certificates.cache_clear()

    assert own_engine.certificates("tcp://db1:2376") == own_engine.certificates("ssh://db2") == ""
    assert by_ssh.with_tls("tcp://db2:2376") == {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/tls/db2/docker"}
    assert docker_engine.command_for("tcp://db2:2376")[3:5] == ["--tlsverify", "--tlscacert=/tls/db2/docker/ca.pem"]
    own_engine.certificates.cache_clear()


# --- installing one ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "commands"),
    [
        (
            ("debian", "12"),
            [
                f"sh {TRIXIE} {own_engine.TRIXIE_SOURCE} {own_engine.TRIXIE_PIN}",
                "apt-get update -q",
                f"{INSTALL} {' '.join(f'{name}/trixie' for name in DEBIAN.split())} iptables",
            ],
        ),
        (("debian", "13"), ["apt-get update -q", f"{INSTALL} {DEBIAN} iptables"]),
        (("ubuntu", "24.04"), ["apt-get update -q", f"{INSTALL} docker.io docker-compose-v2 docker-buildx"]),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else None,
)
def test_a_machine_without_an_engine_gets_its_distributions(
    engine, machine, refused, monkeypatch, capsys, release, commands
):
    """The commands fit the release; LAB_INSTALL=no lists the very same ones and runs none."""
    engine(NOBODY)
    ran = machine(*release)
    monkeypatch.setenv("LAB_INSTALL", "no")
    told = refused(docker_engine.ensure)
    assert told.next_step.splitlines()[1:] == [f"  {command}" for command in commands] and not ran

    monkeypatch.setenv("LAB_INSTALL", "yes")
    refused(docker_engine.ensure)  # the engine of this test never answers, so starting it comes to nothing
    changes, last = made(ran)
    assert changes == commands and START.match(last)
    why, *lines = capsys.readouterr().err.splitlines()
    assert why.startswith("installing Docker Engine and Compose")
    assert {line.split()[0] for line in lines} <= {"add", "install", "start", "starting"}


def test_others_than_root_are_told_to_use_sudo(monkeypatch, refused):
    """The commands listed can be typed as they stand."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("LAB_INSTALL", "no")

    change = installing.HostChange("it", [["apt-get", "update"]], ["it"])

    assert "  sudo apt-get update" in refused(installing.allow, change).next_step


def test_an_engine_that_answers_is_never_installed_over(engine, compose, machine):
    """No path leads to an installation while something answers on the socket."""
    engine()
    compose("2.26.1")
    ran = machine("debian", "13")
    docker_engine.ensure()

    assert ran == []


def test_an_installed_engine_is_started_and_not_installed(engine, machine, refused):
    """dockerd and Compose are installed, and no engine answers: only the start is tried."""
    engine(NOBODY)
    ran = machine("debian", "13", installed=["dockerd"])
    refused(docker_engine.ensure)

    assert len(ran) == 1 and START.match(ran[0])


def test_a_machine_without_apt_is_told_what_is_needed(engine, machine, monkeypatch, refused):
    """No guess at other packagers."""
    engine(NOBODY)
    machine("fedora", "42")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)

    assert "no apt" in refused(docker_engine.ensure).found


def test_the_source_for_debian_13_names_no_mirror():
    """The mirror is the machine's own, read from its apt configuration, and the suite is never preferred."""
    script = TRIXIE.read_text()

    assert "apt-get --print-uris update" in script and "Pin-Priority: 100" in script
    assert "://" not in script


@pytest.mark.parametrize(
    ("running", "of_the_engine", "ended"),
    [([], True, ["kill 4711"]), (["a lab that stays up"], True, []), ([], False, [])],
)
def test_an_engine_that_the_lab_started_is_not_stopped_under_a_lab_that_runs(
    monkeypatch, tmp_path, running, of_the_engine, ended
):
    """One that `--lab-keep` leaves up, or another command's. Nor is a process that has its number now."""
    ran = []
    command = ["dockerd", "--pidfile", str(tmp_path / "pid")] if of_the_engine else ["sleep", "9"]
    monkeypatch.setattr(docker_engine.psutil, "Process", lambda _: SimpleNamespace(cmdline=lambda: command))
    monkeypatch.setattr(own_engine, "PID", tmp_path / "pid")
    own_engine.PID.write_text("4711")
    containers = SimpleNamespace(list=lambda sparse: running)
    monkeypatch.setattr(docker_engine, "client", lambda: SimpleNamespace(containers=containers))
    docker_engine.client.cache_clear = lambda: None
    monkeypatch.setattr(docker_engine, "run_as_root", lambda command: ran.append(" ".join(command)))
    monkeypatch.setattr(docker_engine.psutil, "pid_exists", lambda _: False)

    assert docker_engine.stop() == bool(ended) and ran == ended
