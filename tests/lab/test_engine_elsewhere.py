"""Does the lab work on an engine of another machine, whose published ports are on that machine's loopback only?"""

import signal
import socket

import pytest
from replication_lab.world.clock import wait_until

from tests.lab.conftest import read_until
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}")
IMAGES = [f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "load")]


@pytest.fixture(scope="module")
def elsewhere(built):
    with engine_elsewhere(*IMAGES) as found:
        yield found


@pytest.fixture
def there(elsewhere, command):
    """Run `lab …` with that engine; at the end nothing is left there."""

    def run(*words):
        return command(*words, DOCKER_HOST=elsewhere.host)

    yield run
    run("down", "--lab", "no-such-lab")
    wait_until(lambda: not elsewhere.things(), "nothing to be left", hint=str(elsewhere.things()))


def test_a_lab_comes_up_with_all_proofs_and_is_used(there, elsewhere, name):
    """A link's latency, a commit that waits, a row that arrives; clients here; nobody else reaches its ports."""
    up = there("up", "semisync", "--lab", name)
    try:
        asked = there("sql", "source", "-e", "SELECT 6 * 7", "--lab", name)
        status = there("status", "--lab", name)
        ports = elsewhere.client().containers.get(f"{name}-source-1").ports["3306/tcp"]

        assert up.returncode == 0 and up.stderr.count("verified: ") == 4, up.stdout + up.stderr
        assert "on the engine's machine" in up.stdout
        assert asked.stdout.split()[-1] == "42", asked.stderr
        assert f"127.0.0.1:{ports[0]['HostPort']}" in status.stdout and "healthy" in status.stdout
        with (
            pytest.raises(ConnectionRefusedError),
            socket.create_connection((elsewhere.machine, int(ports[0]["HostPort"]))),
        ):
            pass
    finally:
        down = there("down", "--lab", name)
    assert down.returncode == 0


def test_a_drill_there_judges_what_clients_saw(there):
    """A killed server: every acknowledged row is there after it, and clients saw the outage."""
    drilled = there("drill", "single", "--fault", "kill")

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "no acknowledged row is lost" in drilled.stdout and "UNKNOWN" not in drilled.stdout


@pytest.mark.long
def test_a_whole_failover_is_drilled_there(there):
    """The source is lost while commits wait for the replica, and the replica takes over."""
    drilled = there("drill", "semisync", "--fault", "lose-source")

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "HOLDS" in drilled.stdout and "UNKNOWN" not in drilled.stdout


def test_a_killed_command_leaves_no_way_to_the_ports(there, elsewhere, start_command):
    """Its container on that machine ends with it; its lab is removed by the next command (see the end of `there`)."""
    process = start_command("drill", "single", "--fault", "kill", DOCKER_HOST=elsewhere.host)
    read_until(process, "kill on server")

    def ways():
        return [each for each in elsewhere.things() if each.startswith("replication-lab-reach-")]

    assert ways()
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not ways(), "the way to be gone")
