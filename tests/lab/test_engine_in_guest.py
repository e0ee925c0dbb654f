"""Does the lab work on an engine whose machine has a kernel, a clock and files of its own?"""

import datetime
import platform

import docker
import pytest

from tests.lab.engine_in_guest import engine_in_guest

# Its images are unpacked by an emulated processor, which takes minutes.
pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(2400)]
IMAGES = [f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "load", "clients")]


@pytest.fixture(scope="module")
def guest(built):
    with engine_in_guest(*IMAGES) as host:
        yield host


@pytest.fixture
def there(guest, command):
    """Run `lab …` with that engine."""
    return lambda *words: command(*words, DOCKER_HOST=guest)


def test_a_semi_synchronous_pair_comes_up_there_with_all_proofs(there, guest, name):
    """Nothing of this machine is mounted there: no path of its files exists."""
    up = there("up", "semisync", "--lab", name)
    try:
        engine = docker.DockerClient(guest, timeout=60)
        asked, status = there("sql", "source", "-e", "SELECT NOW()", "--lab", name), there("status", "--lab", name)
        of_lab = engine.containers.list(filters={"label": f"com.docker.compose.project={name}"})
        mounted = [each for one in of_lab for each in one.attrs["Mounts"] if each["Type"] == "bind"]

        assert up.returncode == 0 and up.stderr.count("verified: ") == 4, up.stdout + up.stderr
        assert status.stdout.count("running, healthy") == 2, status.stdout + status.stderr
        assert asked.returncode == 0 and mounted == [], asked.stderr
        assert engine.info()["KernelVersion"] != platform.release()
        now = datetime.datetime.fromisoformat(asked.stdout.splitlines()[-1].strip())
        assert datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - now > datetime.timedelta(hours=20)
    finally:
        down = there("down", "--yes", "--lab", name)
    assert down.returncode == 0
    assert not engine.containers.list(all=True) and not engine.volumes.list()


def test_a_drill_there_is_judged(there):
    """A server that is killed has every acknowledged row when it is back; an emulated machine may be too slow."""
    drilled = there("drill", "single", "--drill", "kill")

    assert drilled.returncode in (0, 3), drilled.stdout + drilled.stderr
    assert "no acknowledged row is lost" in drilled.stdout
    assert "UNEXPECTED" not in drilled.stdout and "Traceback" not in drilled.stderr
