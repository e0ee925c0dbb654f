"""Does the lab work on an engine of another machine, whose published ports are on that machine's loopback only?"""

import json
import os
import signal
import socket
from contextlib import closing

import pytest
from replication_lab.probes.noise import NoiseMeter
from replication_lab.probes.used import Reader, UsedSince
from replication_lab.world import catalogue
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, machine, reach

from tests.lab.conftest import read_until
from tests.lab.engine_elsewhere import MISSING, SSH_IMAGE, build_ssh_image, engine_elsewhere, reached_by_ssh
from tests.noise import other_programs

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}")
IMAGES = [f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "load", "clients")]


@pytest.fixture(scope="module")
def elsewhere(built):
    images.ensure(["clients"])
    with engine_elsewhere(*IMAGES) as found:
        yield found


@pytest.fixture(scope="module")
def with_all_images(elsewhere):
    """Give that engine the images that only long tests need."""
    build_ssh_image()
    images.ensure(["sidecar"])
    elsewhere.load("replication-lab/sidecar", SSH_IMAGE)


@pytest.fixture
def there(elsewhere, command):
    """Run `lab …` with that engine; at the end nothing is left there."""

    def run(*words):
        return command(*words, DOCKER_HOST=elsewhere.host)

    yield run
    run("down", "--yes", "--lab", "no-such-lab")
    wait_until(lambda: not elsewhere.things(), "nothing to be left", hint=str(elsewhere.things()))


@pytest.mark.long
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
        down = there("down", "--yes", "--lab", name)
    assert down.returncode == 0


@pytest.mark.long
@pytest.mark.usefixtures("with_all_images")
@pytest.mark.parametrize("topology", ["semisync", "galera"])
def test_a_lab_is_published_on_an_address_of_that_machine_if_it_is_named(there, elsewhere, name, topology):
    """Clients of this machine connect to it directly; the API of Toxiproxy stays on loopback."""
    node = catalogue.topology(topology).nodes[-1].name
    at = ("--site-address", f"{node}={elsewhere.machine}")
    up = there("up", topology, "--lab", name, *at)
    try:
        again, other = there("up", topology, "--lab", name, *at), there("up", topology, "--lab", f"{name}-2", *at)
        status = there("status", "--lab", name)
        port = 20_000 + len(catalogue.topology(topology).nodes)
        with socket.create_connection((elsewhere.machine, port), timeout=5) as connection:
            greeting = connection.recv(64)
        proxy = elsewhere.client().containers.get(f"{name}-toxiproxy-1").ports

        assert up.returncode == again.returncode == 0, up.stdout + up.stderr + again.stderr
        assert f"{node} {elsewhere.machine}:{port}" in up.stdout and "on the engine's machine" not in up.stdout
        assert f"{elsewhere.machine}:{port}" in status.stdout
        assert b"MariaDB" in greeting
        assert {each["HostIp"] for found in proxy.values() for each in found or ()} == {"127.0.0.1"}
        assert other.returncode == 2 and "another --site-address" in other.stderr
    finally:
        there("down", "--yes", "--lab", name)
    nowhere = there("up", topology, "--lab", name, "--site-address", f"{node}={elsewhere.neighbour}")
    assert nowhere.returncode == 2 and "has no such --site-address" in nowhere.stderr, nowhere.stderr


def test_a_drill_there_judges_what_clients_saw(there):
    """A killed server: every acknowledged row is there after it, and clients saw the outage."""
    drilled = there("drill", "single", "--drill", "kill")

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "no acknowledged row is lost" in drilled.stdout and "UNKNOWN" not in drilled.stdout


@pytest.mark.long
def test_a_whole_failover_is_drilled_there(there):
    """The source is lost while commits wait for the replica, and the replica takes over."""
    drilled = there("drill", "semisync", "--drill", "lose-source")

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "HOLDS" in drilled.stdout and "UNKNOWN" not in drilled.stdout


def test_a_question_is_decided_there(there, noise_beforehand):
    """Clients and probes run beside the nodes: a commit takes a round trip, and 4 clients commit 4 times as much."""
    if noise_beforehand:
        pytest.skip(f"needs a quiet machine, or every verdict is UNKNOWN: {noise_beforehand}")
    asked = there(
        *("ask", "semisync", "--rtt", "40ms", "--vary", "clients=1,4", "--duration", "2", "--runs", "4"),
        *("--claim", "throughput[clients=4] / throughput[clients=1] >= 3", "--json"),
    )
    verdicts = {claim["id"]: claim["verdict"] for claim in json.loads(asked.stdout)["claims"]}

    assert verdicts["claim-1.1"] == "HOLDS", asked.stderr


@pytest.mark.long
def test_clients_of_this_machine_are_in_doubt_there(there):
    """The way to the engine is part of each commit."""
    asked = there(
        *("ask", "semisync", "--rtt", "40ms", "--vary", "clients=1,4", "--duration", "1", "--runs", "3"),
        *("--clients-from", "host"),
    )

    assert asked.returncode == 3, asked.stdout + asked.stderr
    assert "clients run on this machine: the way there takes part of each commit's time" in " ".join(
        asked.stdout.split()
    )


@pytest.mark.long
@pytest.mark.usefixtures("with_all_images")
def test_an_engine_is_used_by_ssh(elsewhere, command):
    """By the user's own ssh and keys: a lab comes up with all proofs, is used, drilled and removed."""
    with reached_by_ssh(elsewhere) as by_ssh:
        before = elsewhere.things()
        up = command("up", "semisync", "--lab", "by-ssh", **by_ssh)
        asked = command("sql", "source", "-e", "SELECT 6 * 7", "--lab", "by-ssh", **by_ssh)
        examined = command("doctor", **by_ssh)
        down = command("down", "--lab", "by-ssh", **by_ssh)
        drilled = command("drill", "single", "--drill", "kill", **by_ssh)
        wait_until(lambda: elsewhere.things() == before, "nothing to be left")

    assert up.returncode == 0 and up.stderr.count("verified: ") == 4, up.stdout + up.stderr
    assert asked.stdout.split()[-1] == "42", asked.stderr
    assert "DOCKER_HOST leads to ssh://" in examined.stdout and "GB free for images" in examined.stdout
    assert down.returncode == 0 and drilled.returncode == 0, drilled.stdout + drilled.stderr


@pytest.mark.long
@pytest.mark.usefixtures("with_all_images")
def test_a_site_is_reached_by_ssh(elsewhere, command, name):
    """The replica alone is there: the images are there already, and each command finds the site again."""
    with reached_by_ssh(elsewhere) as by_ssh:
        before, path = elsewhere.things(), {"PATH": by_ssh["PATH"]}
        site = ("--site", f"replica={by_ssh['DOCKER_HOST']}", "--site-address", f"replica={elsewhere.machine}")
        up = command("up", "async", "--lab", name, *site, "--site-address", f"source={elsewhere.neighbour}", **path)
        asked = command("sql", "replica", "-e", "SELECT @@server_id", "--lab", name, **path)
        down = command("down", "--lab", name, **path)
        wait_until(lambda: elsewhere.things() == before, "nothing to be left")

    assert up.returncode == 0 and "a real network" in up.stderr, up.stdout + up.stderr
    assert asked.stdout.split()[-1] == "2", asked.stderr
    assert down.returncode == 0, down.stderr


@pytest.mark.long
def test_an_ssh_that_does_not_lead_there_is_one_error(command):
    """With the command that shows why."""
    found = command("status", DOCKER_HOST="ssh://nobody@127.0.0.1:9")

    assert found.returncode == 2
    assert "the Docker engine at ssh://nobody@127.0.0.1:9 does not answer" in found.stderr
    assert "ssh -l nobody -p 9" in found.stderr


def test_a_killed_command_leaves_no_way_to_the_ports(there, elsewhere, start_command):
    """Its container on that machine ends with it; its lab is removed by the next command (see the end of `there`)."""
    process = start_command("drill", "single", "--drill", "kill", DOCKER_HOST=elsewhere.host)
    read_until(process, "kill on server")

    def ways():
        return [each for each in elsewhere.things() if each.startswith("replication-lab-reach-")]

    assert ways()
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not ways(), "the way to be gone")


# Counters of the kernel have hundredths of a second, and those of a CPU that sleeps may be a few behind.
TICKS = 0.05


@pytest.fixture
def elsewhere_is(monkeypatch):
    """Set the reason why the engine's machine is not this one, as for the readings of the machine; empty if it is."""
    # Its container ends with the last reference to it.
    monkeypatch.setattr(reach, "_hands", {})

    def set_(reason):
        monkeypatch.setattr(machine, "facts", lambda: machine.EngineMachine("", "", 1, 1, "", elsewhere=reason))

    set_("a test says so")
    return set_


def test_a_machine_that_is_read_there_is_what_it_is_here(elsewhere_is):
    """Read here, there and here again: each counter there is between those of here. The harness is on this machine."""
    readers = []
    for reason in ("", "a test says so", ""):
        elsewhere_is(reason)
        readers.append(Reader([]).read())
    first, there, last = readers

    for counter in ("busy", "stolen", "total", "own"):
        before, at, after = (getattr(each.machine, counter) for each in readers)
        assert before - TICKS <= at <= after + TICKS, counter
    assert first.cpus.keys() == there.cpus.keys() and first.disks.keys() == there.disks.keys()
    assert all(first.disks[name].moved <= disk.moved <= last.disks[name].moved for name, disk in there.disks.items())
    (own,) = [each for each in there.processes if each.pid == os.getpid()]
    assert own in there.lab and first.processes[own].disk_bytes <= there.processes[own].disk_bytes


def test_the_container_that_reads_a_machine_there_is_not_noise(elsewhere_is):
    """It is read without a pause, so it uses CPU time all the while: the lab's own, and of nobody who is named."""
    reader = Reader([])
    before = reader.read()
    for _ in range(100):
        now = reader.read()
    used = UsedSince(before, now)

    ((key, seconds),) = now.containers.items()
    assert seconds - before.containers[key] > 0.1
    assert used.own >= (seconds - before.containers[key]) / (now.machine.total - before.machine.total)
    assert "reach" not in dict(used.foreign_cpu_seconds())


def test_a_program_of_others_there_is_noise_with_its_name(elsewhere_is):
    """The machine is read twice a second, all through the load."""
    with other_programs(), closing(NoiseMeter([])) as meter:
        wait_until(lambda: meter.read().why, "the program to be seen")
        found = meter.read()

    assert found.readable and not found.quiet
    assert "other programs used" in found.why and "python" in found.why
