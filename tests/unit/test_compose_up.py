"""Does `compose.Project.up` start what it is told to, and wait until services are healthy or lost?"""

import subprocess
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab.world import clock
from replication_lab.world.docker import compose, labels, machine
from replication_lab.world.docker import engine as docker_engine

LAB = compose.Project("lab-a", ("semisync.yaml", "overlay.yaml"), "lab-a.env", ("load",))


@pytest.fixture
def typed(monkeypatch):
    """Return the commands that are run; each succeeds."""
    commands = []
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: commands.append(command) or SimpleNamespace(stdout=b"{}")
    )
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere=""))
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


def never():
    return False


def test_files_settings_profiles_and_services_are_passed_on(typed, seen):
    """In the order that Compose reads them."""
    seen({"replica": "healthy"})

    LAB.up(never, ["replica"])

    assert " ".join(typed[0]) == (
        "docker compose -f semisync.yaml -f overlay.yaml --env-file lab-a.env --profile load up --detach replica"
    )


def test_an_engine_on_another_machine_gets_the_texts_of_files_and_not_their_paths(seen, monkeypatch, tmp_path):
    """Docker would look for them on its own machine; Compose replaces "$X", and must not do so in a script."""
    script, given = tmp_path / "start", []
    script.write_text('#!/bin/sh\nexec "$1"\n')
    named = {"start": {"name": "lab-a_start", "file": str(script)}, "links": {"content": "[]"}}

    def run(command, input, **_):  # noqa: A002 - as subprocess calls it
        given.append((command, input))
        return SimpleNamespace(stdout=msgspec.json.encode({"configs": named}))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere="DOCKER_HOST leads to ssh://db2"))
    seen({"source": "healthy"})

    LAB.up(never)
    (asked, _), (started, sent) = given

    assert asked[-3:] == ["config", "--format", "json"]
    assert " ".join(started).startswith("docker compose -f semisync.yaml -f overlay.yaml -f - --env-file lab-a.env")
    assert sent.decode() == 'configs:\n  start: !override {content: "#!/bin/sh\\nexec \\"$$1\\"\\n"}'


def test_it_waits_until_every_service_is_healthy(typed, seen):
    """One without a health check only has to run; before Compose has created any there is nothing to wait for."""
    left = seen({}, {"source": "starting", "load": "running"}, {"source": "healthy", "load": "running"})

    LAB.up(never)

    assert len(left) == 1


def test_services_that_were_not_started_do_not_count(typed, seen):
    """A replica's disks are replaced while its source is stopped."""
    seen({"source": "exited", "replica": "healthy"})

    LAB.up(never, ["replica"])


def test_a_lost_service_ends_the_wait(typed, seen, monkeypatch):
    """It never becomes healthy."""
    seen({"source": "exited"})
    monkeypatch.setattr(compose, "LOOK_CLOSELY_SECONDS", 0)

    with pytest.raises(subprocess.CalledProcessError):
        LAB.up(lambda: True)


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
