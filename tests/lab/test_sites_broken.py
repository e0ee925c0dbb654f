"""Is a site that breaks while a lab or a drill uses it one clear error, and is nothing left on any site after it?"""

import json
import subprocess

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.lab.conftest import read_until, things_of
from tests.lab.engine_elsewhere import MISSING, SSH_IMAGE, build_ssh_image, engine_elsewhere, reached_by_ssh

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}"),
]


@pytest.fixture(scope="module")
def elsewhere(built):
    build_ssh_image()
    images.ensure(["clients"])
    names = ("mariadb", "toxiproxy", "clients")
    with engine_elsewhere(*(f"replication-lab/{name}" for name in names), SSH_IMAGE) as found:
        yield found


def at(elsewhere, host):
    """Return the options that place the replica there."""
    return (
        *("--site", f"replica={host}", "--site-address", f"replica={elsewhere.machine}"),
        *("--site-address", f"source={elsewhere.neighbour}"),
    )


def test_an_engine_that_was_restarted_has_its_nodes_seen_as_ended_and_removed(elsewhere, command, name):
    """Its containers end with it. Each command says so, and one command removes all."""
    up = command("up", "async", "--lab", name, *at(elsewhere, elsewhere.host))
    elsewhere.restart()
    status = command("status", "--lab", name, "--json")
    asked = command("sql", "replica", "-e", "SELECT 1", "--lab", name)
    down = command("down", "--lab", name)

    assert up.returncode == 0, up.stderr
    [lab] = json.loads(status.stdout)
    states = {node["name"]: node["state"] for node in lab["nodes"]}
    assert states["source"] == "running" and states["replica"].startswith("exited"), states
    assert asked.returncode == 2 and "replica" in asked.stderr, asked.stderr
    assert down.returncode == 0, down.stderr
    wait_until(lambda: things_of(name) == elsewhere.things() == [], "nothing to be left")


def test_a_drill_whose_engine_restarts_is_one_error_and_leaves_nothing(elsewhere, start_command, command):
    """The source goes on here while the replica's containers end there."""
    process = start_command("drill", "async", "--drill", "cut-link", *at(elsewhere, elsewhere.host))
    read_until(process, "cut-link: The link is cut")
    elsewhere.restart()
    said, _ = process.communicate(timeout=300)
    command("down", "--lab", "no-such-lab")

    assert process.returncode in (1, 2, 3), said
    wait_until(lambda: elsewhere.things() == [], "nothing to be left", hint=str(elsewhere.things()))


def test_an_ssh_connection_that_dies_in_a_drill_is_one_error_with_its_site(elsewhere, start_command, command):
    """Once ssh leads there again, the next command removes what the drill left on both sites."""
    with reached_by_ssh(elsewhere) as by_ssh:
        path, before = {"PATH": by_ssh["PATH"]}, elsewhere.things()
        process = start_command("drill", "async", "--drill", "cut-link", *at(elsewhere, by_ssh["DOCKER_HOST"]), **path)
        read_until(process, "cut-link: The link is cut")
        [server] = elsewhere.client().containers.list(filters={"ancestor": SSH_IMAGE})
        server.kill()
        said, _ = process.communicate(timeout=300)
        server.start()
        again = command("doctor", **path)
        command("down", "--lab", "no-such-lab", **path)
        wait_until(lambda: elsewhere.things() == before, "nothing to be left", hint=str(elsewhere.things()))

    assert process.returncode == 2 and "Traceback" not in said, said
    assert by_ssh["DOCKER_HOST"] in said, said
    assert again.returncode in (0, 1), again.stderr


def test_an_engine_that_is_too_old_is_refused_by_name(command, name, tmp_path):
    """A real one, if this machine's apt has it: Debian 12's own."""
    subprocess.run(["apt-get", "download", "docker.io/bookworm"], cwd=tmp_path, check=False, capture_output=True)
    for package in tmp_path.glob("docker.io_20.*.deb"):
        subprocess.run(["dpkg", "-x", package, tmp_path], check=True)
    program = tmp_path / "usr" / "sbin" / "dockerd"
    if not program.is_file():
        pytest.skip("apt has no engine older than 25 here")
    with engine_elsewhere(program=str(program)) as old:
        refused = command("up", "async", "--lab", name, *at(old, old.host))

    assert refused.returncode == 2 and f"the Docker engine of the site {old.host} is version 20.10" in refused.stderr
    assert "25 or newer" in refused.stderr
    assert things_of(name) == []
