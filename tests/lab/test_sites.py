"""Does a lab run with its nodes on two Docker engines: proved, used, told by name where one is lost, and removed?"""

import json
import os
import shutil
import signal
from contextlib import suppress

import docker
import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.lab.conftest import NOISE_IGNORED, read_until, things_of
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}")


@pytest.fixture(scope="module")
def elsewhere(built):
    """Yield an engine that has Toxiproxy's image only: the lab brings the others there."""
    images.ensure(["clients"])
    with engine_elsewhere("replication-lab/toxiproxy") as found:
        yield found


@pytest.fixture
def apart(elsewhere):
    """Yield the options that place the replica there; at the end nothing of a lab is left there."""
    yield (
        *("--site", f"replica={elsewhere.host}", "--site-address", f"replica={elsewhere.machine}"),
        *("--site-address", f"source={elsewhere.neighbour}"),
    )
    wait_until(lambda: not elsewhere.things(), "nothing to be left", hint=str(elsewhere.things()))


def wait_until_nothing_is_left(elsewhere, name):
    """Wait: a command's own container ends a moment after it."""
    wait_until(lambda: things_of(name) == elsewhere.things() == [], "nothing to be left")


def published(elsewhere, name):
    """Return the host's addresses of all ports that a lab's containers publish on that engine."""
    found = elsewhere.client().containers.list(filters={"label": f"com.docker.compose.project={name}"})
    return {(port, each["HostIp"]) for one in found for port, bound in one.ports.items() for each in bound or ()}


def mounted(elsewhere, name):
    """Return the files and folders of that engine's machine that a lab's containers have."""
    found = elsewhere.client().containers.list(filters={"label": f"com.docker.compose.project={name}"})
    return [each["Source"] for one in found for each in one.attrs["Mounts"] if each["Type"] == "bind"]


def test_a_pair_on_two_sites_comes_up_is_used_and_removed(apart, elsewhere, command, name):
    """Semi-sync across a real network, whose round trip the toxic completes; no port is open to all interfaces."""
    up = command("up", "semisync", "--lab", name, *apart)
    try:
        asked = command("sql", "replica", "-e", "SELECT @@server_id", "--lab", name)
        status = command("status", "--lab", name)
        changed = command("link", "set", "source-replica", "none", "--lab", name)

        assert up.returncode == 0 and up.stderr.count("verified: ") == 5, up.stdout + up.stderr
        assert "verified: packets of full size cross link source-replica: 64 KiB arrived both ways" in up.stderr
        assert "part of it is a real network, the rest is emulated" in up.stderr
        assert asked.stdout.split()[-1] == "2", asked.stderr
        assert f"at {elsewhere.host}" in status.stdout and status.stdout.count("healthy") == 2
        assert changed.returncode == 0 and "; a real network" in changed.stdout
        assert published(elsewhere, name) == {
            *(("3306/tcp", address) for address in ("127.0.0.1", elsewhere.machine)),
            *(("8474/tcp", "127.0.0.1"), ("21002/tcp", "127.0.0.1")),
        }
        # Another machine does not have the files of this checkout.
        assert mounted(elsewhere, name) == []
    finally:
        down = command("down", "--lab", name)
    assert down.returncode == 0, down.stderr
    wait_until_nothing_is_left(elsewhere, name)


@pytest.mark.long
def test_a_failover_leads_to_the_other_site_and_back(apart, command, name):
    """The old source then dials the other site's Toxiproxy, and pings of that link cross the network, too."""
    up = command("up", "semisync", "--lab", name, *apart)
    promoted = command("failover", "replica", "--lab", name)
    rejoined = command("rejoin", "source", "--lab", name)
    status = command("status", "--lab", name, "--json")
    command("down", "--lab", name)

    assert up.returncode == promoted.returncode == rejoined.returncode == 0, promoted.stderr + rejoined.stderr
    [lab] = json.loads(status.stdout)
    [link] = lab["links"]
    assert link["name"] == "replica-source" and link["round_trip_ms"] >= 85


@pytest.mark.long
def test_a_site_that_is_not_reached_is_named_and_nothing_there_is_called_gone(apart, elsewhere, command, name):
    """Each command says which site; once it answers again, one command removes all."""
    up = command("up", "async", "--lab", name, *apart)
    with elsewhere.unreachable():
        status = command("status", "--lab", name)
        asked = command("sql", "replica", "-e", "SELECT 1", "--lab", name)
        examined = command("doctor")
        down = command("down", "--lab", name)
        again = command("down", "--lab", name)
    last = command("down", "--lab", name)

    assert up.returncode == 0, up.stderr
    silent = f"the site {elsewhere.host} does not answer"
    assert silent in status.stderr and "unknown" in status.stdout and "missing" not in status.stdout
    assert asked.returncode == 2 and f"replica of {name} is not seen: {silent}" in asked.stderr
    assert silent in examined.stdout
    for each in (down, again):
        assert each.returncode == 2 and silent in each.stderr and "removed" not in each.stdout, each.stderr
    assert last.returncode == 0, last.stderr
    wait_until_nothing_is_left(elsewhere, name)


@pytest.mark.long
def test_the_next_command_removes_what_a_killed_one_left_on_both_sites(apart, elsewhere, command, start_command):
    """SIGKILL as the containers are made. Once it is proved, a lab is no leftover."""
    process = start_command("up", "semisync", "--lab", "lab-killed", *apart)
    read_until(process, "starting")
    wait_until(elsewhere.things, "the other site to have something of it")
    process.send_signal(signal.SIGKILL)
    process.wait()
    next_ = command("down", "--lab", "no-such-lab")

    assert "removed lab-killed: leftover of a killed command" in next_.stderr
    wait_until_nothing_is_left(elsewhere, "lab-killed")


@pytest.mark.long
def test_a_port_that_is_taken_there_is_one_clear_error(apart, elsewhere, command, name):
    """It names a way out, and nothing is left on either site."""
    taken = elsewhere.client().containers.run(
        "replication-lab/toxiproxy", detach=True, ports={"8474/tcp": (elsewhere.machine, 20002)}
    )
    try:
        refused = command("up", "async", "--lab", name, *apart)
    finally:
        taken.remove(force=True)

    assert refused.returncode == 2 and "a host port is taken" in refused.stderr, refused.stderr
    assert "another --site-address" in refused.stderr
    assert things_of(name) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("topology", "drill"),
    [
        *(("async", drill) for drill in ("cut-site", "lose-site")),
        *(("semisync", drill) for drill in ("cut-site", "lose-site", "clock-site")),
    ],
)
def test_a_site_is_cut_off_or_lost_or_has_a_wrong_clock(topology, drill, apart, command):
    """Real links and containers on two engines: each fault is proved, and the ledger decides what was lost."""
    drilled = command("drill", topology, "--drill", drill, "--json", *apart, module=NOISE_IGNORED)

    [found] = json.loads(drilled.stdout)["drills"]
    assert drilled.returncode == 0, (found, drilled.stderr)


@pytest.mark.long
def test_an_upgrade_brings_the_other_engines_image_to_the_site(apart, elsewhere, command):
    """The site has neither image at first."""
    names = ("replication-lab/mariadb", "replication-lab/mariadb-10.11")
    for each in names:
        with suppress(docker.errors.ImageNotFound):
            elsewhere.client().images.remove(each)
    drilled = command("drill", "async", "--drill", "upgrade", *apart, module=NOISE_IGNORED)

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert [each for each in names if f"loading {each} at {elsewhere.host}" not in drilled.stderr] == [], drilled.stderr


@pytest.mark.long
def test_large_packets_that_a_network_drops_are_found_and_named(apart, elsewhere, command, name):
    """As in a tunnel whose own size nobody knows: connections are made and short answers come."""
    with elsewhere.dropping(1300):
        up = command("up", "semisync", "--lab", name, *apart)

    assert up.returncode == 2, up.stdout + up.stderr
    assert "packets of full size cross link source-replica: short ones arrive, 64 KiB from source" in up.stderr
    assert things_of(name) == []


@pytest.mark.long
def test_a_full_disk_of_a_site_is_told_before_images_are_loaded(apart, elsewhere, command, name):
    """The free space is read there, not on this machine's disk."""
    ballast = elsewhere.folder / "ballast"
    command("images", "build", "mysql")
    free = shutil.disk_usage(elsewhere.folder).free
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - 300_000_000)
    try:
        refused = command("up", "semisync", "--engine", "mysql", "--lab", name, *apart)
    finally:
        ballast.unlink()

    assert refused.returncode == 2 and f"at the site {elsewhere.host}" in refused.stderr, refused.stderr
    assert "MB free on the disk of" in refused.stderr and "MB to load replication-lab/mysql" in refused.stderr


@pytest.mark.long
def test_a_site_that_is_gone_for_good_is_forgotten_and_what_it_had_is_removed_later(apart, elsewhere, command, name):
    """What was not seen to go is named; the next command that uses the site removes it."""
    up = command("up", "async", "--lab", name, *apart)
    answers = command("down", "--lab", name, "--forget-site", "replica")
    with elsewhere.unreachable():
        down = command("down", "--lab", name, "--forget-site", elsewhere.host)
    left = elsewhere.things()
    again = command("up", "async", "--lab", f"{name}-2", *apart)
    last = command("down", "--lab", f"{name}-2")

    assert up.returncode == again.returncode == last.returncode == 0, up.stderr + again.stderr + last.stderr
    assert answers.returncode == 2 and f"the site {elsewhere.host} answers" in answers.stderr
    assert down.returncode == 0 and "on the other sites are removed" in down.stderr + down.stdout
    assert f"not seen to go: replica, toxiproxy at {elsewhere.host}" in down.stderr + down.stdout
    assert left and f"removed {name}: leftover of a killed command" in again.stderr
    wait_until_nothing_is_left(elsewhere, name)
