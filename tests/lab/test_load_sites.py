"""Do the containers of a load on two engines write to one lab, and is a load that was held back never an answer?"""

import threading
from contextlib import suppress

import docker
import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images
from replication_lab.world.journal import read

from tests.lab.conftest import NOISE_IGNORED, things_of
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"engines in network namespaces need {MISSING}"),
]
ASKED = ("ask", "semisync", "--rtt", "10ms", "--vary", "clients=4,16", "--runs", "3", "--margin", "100%", "--json")


@pytest.fixture(scope="module")
def elsewhere(built):
    """Yield an engine that has no image of the load: the lab brings it there."""
    images.ensure(["clients", "load"])
    with engine_elsewhere("replication-lab/toxiproxy") as found:
        yield found


def spread(elsewhere, *places):
    return ("--load-sites", ",".join(places), "--load-address", elsewhere.neighbour)


def load_proofs(record):
    """Return the proofs of a record that are about the containers of the load."""
    return [proof for each in record.measurements for proof in each.proofs if "the load " in proof.what]


@pytest.mark.parametrize("load", [(), ("--rate", "100/s"), ("--workload", "oltp_insert")])
def test_clients_on_two_engines_write_to_one_lab_at_the_same_time(load, elsewhere, command):
    """Each container has its share, the rows of both arrive and are counted, and nothing is left on either engine."""
    run = command(*ASKED, *load, *spread(elsewhere, "here", elsewhere.host, "here"), module=NOISE_IGNORED)
    _, record = read("latest")

    assert run.returncode in (0, 3), run.stdout + run.stderr
    assert record.measurements and not any(each.doubts for each in record.measurements), run.stdout
    found = [proof.found for proof in load_proofs(record) if "bottleneck" in proof.what]
    assert any("load-1 with 6 clients" in each and "load-2 with 5 clients" in each for each in found), found
    assert all(proof.ok for each in record.measurements for proof in each.proofs if not proof.slow), run.stdout
    up = record.lab("mariadb")
    assert up.settings["site of load-2"] == elsewhere.host, up.settings
    wait_until(lambda: things_of("run-semisync") == elsewhere.things() == [], "nothing to be left")


def test_a_load_that_is_held_back_on_its_engine_is_no_answer(elsewhere, command):
    """Another program limits the CPU time of the container there: no figure is known, and the reason is told."""
    done = threading.Event()

    def hold_back() -> None:
        while not done.wait(0.1):
            for one in elsewhere.client().containers.list(ignore_removed=True):
                if one.labels.get("com.docker.compose.service") == "load-1" and not one.attrs["HostConfig"]["CpuQuota"]:
                    # It may have ended since.
                    with suppress(docker.errors.APIError):
                        one.update(cpu_period=100_000, cpu_quota=2_000)

    holds_back = threading.Thread(target=hold_back)
    holds_back.start()
    try:
        run = command(*ASKED, *spread(elsewhere, elsewhere.host), module=NOISE_IGNORED)
    finally:
        done.set()
        holds_back.join()
    _, record = read("latest")

    assert run.returncode == 3, run.stdout + run.stderr
    assert any("held back by a limit" in proof.found for proof in load_proofs(record)), run.stdout
    wait_until(lambda: things_of("run-semisync") == elsewhere.things() == [], "nothing to be left")
