"""Does `compose.Project.up` start what it is told to, and wait until services are healthy or lost?"""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, lab_files
from replication_lab.world.docker import compose, labels, machine, not_started
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab

LAB = compose.Project(Lab("lab-a", None, "mariadb", {}), ("semisync.yaml", "overlay.yaml"), ("load",))


@pytest.fixture
def typed(monkeypatch):
    """Return the commands that are run; each succeeds, and nothing is lost."""
    commands = []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere=""))
    monkeypatch.setattr(lab_files, "FOLDER", Path("labs"))
    monkeypatch.setattr(not_started, "has_lost_one", lambda *_: False)
    monkeypatch.setattr(clock, "pause", lambda _: None)
    return commands


@pytest.fixture
def seen(monkeypatch):
    """Let the health of services be these, one after another; the last one stays."""

    def shows(*healths):
        left = list(healths)
        monkeypatch.setattr(labels, "health", lambda _: left.pop(0) if len(left) > 1 else left[0])
        return left

    return shows


def test_files_settings_profiles_and_services_are_passed_on(typed, seen):
    """In the order that Compose reads them."""
    seen({"replica": "healthy"})

    LAB.up(["replica"])

    assert " ".join(typed[0]) == (
        "docker compose -f semisync.yaml -f overlay.yaml --env-file labs/lab-a.env --profile load up --detach replica"
    )


def test_an_engine_on_another_machine_gets_the_texts_of_files_and_not_their_paths(seen, monkeypatch, tmp_path):
    """Docker would look for them on its own machine; Compose replaces "$X", and must not do so in a script."""
    script, given = tmp_path / "start", []
    script.write_text('#!/bin/sh\nexec "$1"\n')
    named = {"start": {"name": "lab-a_start", "file": str(script)}, "links": {"content": "[]"}}

    def run(command, input, **_):
        given.append((command, input))
        return subprocess.CompletedProcess(command, 0, msgspec.json.encode({"configs": named}))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere="DOCKER_HOST leads to ssh://db2"))
    seen({"source": "healthy"})

    LAB.up()
    (asked, _), (started, sent) = given

    assert asked[-3:] == ["config", "--format", "json"]
    assert started[-4:] == ["-f", "-", "up", "--detach"]
    assert sent.decode() == 'configs:\n  start: !override {content: "#!/bin/sh\\nexec \\"$$1\\"\\n"}'


@pytest.fixture
def resolves(monkeypatch):
    """Let Compose resolve the files of a lab on another machine to this document."""

    def to(**document):
        said = msgspec.json.encode({"services": {}, "configs": {}, **document})
        monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, said))

    monkeypatch.setattr(Lab, "refresh", lambda _: None)
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere="DOCKER_HOST leads to ssh://db2"))
    monkeypatch.setattr(machine, "is_near", lambda: False)
    return to


@pytest.mark.parametrize("mode", ["0555", 0o555])
def test_a_container_that_is_made_again_on_another_machine_gets_its_texts(resolves, monkeypatch, tmp_path, mode):
    """A newer Compose writes them only when it starts a container itself; the lab starts this one."""
    put = []
    (tmp_path / "health").write_text("exit 0")
    service = SimpleNamespace(put=lambda path, content, mode: put.append((path, content, mode)))
    monkeypatch.setattr(Lab, "service", lambda *_: service)
    resolves(
        services={"source": {"configs": [{"source": "health", "target": "/usr/local/bin/health", "mode": mode}]}},
        configs={"health": {"file": str(tmp_path / "health")}},
    )

    LAB.make_again("source")

    assert put == [("/usr/local/bin/health", b"exit 0", 0o555)]


def test_a_file_of_this_checkout_that_a_service_mounts_is_refused_on_another_machine(resolves):
    """Docker would make an empty folder there. A device or a socket of that machine is meant."""
    own, there = str(catalogue.COMPOSE / "my.cnf"), "/dev"
    mounts = [{"type": "bind", "source": each, "target": "/x"} for each in (there, own)]
    resolves(services={"source": {"volumes": mounts}})

    with pytest.raises(LabError, match=f"source mounts {own}, which the engine's machine does not have"):
        LAB.up()


@pytest.mark.parametrize("text", [None, b"\xff\xfe"])
def test_a_config_that_cannot_be_sent_is_named(resolves, tmp_path, text):
    """It is missing, or no text."""
    file = tmp_path / "key"
    if text:
        file.write_bytes(text)
    resolves(configs={"key": {"file": str(file)}})

    with pytest.raises(LabError, match="the config key"):
        LAB.up()


def test_files_that_compose_cannot_read_are_an_error_of_their_own(monkeypatch, resolves):
    """Nothing was started."""

    def run(command, **_):
        raise subprocess.CalledProcessError(1, command, stderr=b"yaml: line 3: did not find expected key")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(LabError, match="docker compose cannot read the files of lab-a:\n  yaml: line 3"):
        LAB.up()


def test_it_waits_until_every_service_is_healthy(typed, seen):
    """One without a health check only has to run; before Compose has created any there is nothing to wait for."""
    left = seen({}, {"source": "starting", "load": "running"}, {"source": "healthy", "load": "running"})

    LAB.up()

    assert len(left) == 1


def test_services_that_were_not_started_do_not_count(typed, seen):
    """A replica's disks are replaced while its source is stopped."""
    seen({"source": "exited", "replica": "healthy"})

    LAB.up(["replica"])


def test_a_lost_service_ends_the_wait(typed, seen, monkeypatch):
    """It never becomes healthy."""
    seen({"source": "exited"})
    monkeypatch.setattr(compose, "LOOK_CLOSELY_SECONDS", 0)
    monkeypatch.setattr(not_started, "has_lost_one", lambda *_: True)
    monkeypatch.setattr(not_started, "why_not_started", lambda lab: LabError(f"why {lab.name} does not start"))

    with pytest.raises(LabError, match="why lab-a does not start"):
        LAB.up()


@pytest.mark.parametrize(
    ("state", "status", "health"),
    [
        ("running", "Up 3 seconds (health: starting)", "starting"),
        ("running", "Up 5 minutes (healthy)", "healthy"),
        ("running", "Up 5 minutes (unhealthy)", "unhealthy"),
        ("running", "Up 5 minutes", "running"),
        ("paused", "Up 5 minutes (Paused)", "paused"),
        ("exited", "Exited (1) 2 minutes ago", "exited"),
    ],
)
def test_health_is_read_from_the_engines_list(monkeypatch, state, status, health):
    """By one request for all containers; without a health check the state counts."""
    listed = [{"Labels": {labels.SERVICE: "source"}, "State": state, "Status": status}]
    api = type("Api", (), {"containers": lambda *_, **__: listed})()
    monkeypatch.setattr(docker_engine, "client", type("Client", (), {"api": api}))

    assert labels.health("lab-a") == {"source": health}
