"""A replica in a virtual machine, on real md: proved like any other, and broken like any other."""

import secrets

import pytest
from replication_lab.lab import disks, up
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes.node_resources import sample
from replication_lab.world import catalogue, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.disks import array as arrays
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

# The machine takes half a minute to start; the image's own tests have its arrays.
pytestmark = pytest.mark.long

LIMITS = Limits(read_iops=400, write_iops=400)


@pytest.fixture(scope="module")
def lab(docker):
    """Yield a source in a container, and a replica on RAID1 in a machine started by this host's launcher."""
    topology = catalogue.topology("async")
    storage = up.storage_of("async", ["raid1"], disk="unlimited", disks=0, mib=1024, backend="vm")
    images.ensure(up.image_names("mariadb", topology=topology, storage=storage))
    placed = up.placed_on(storage, "mariadb")
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", storage=placed))
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def array(lab):
    return arrays.array(lab, "replica")


def same_rows(lab):
    Replica(lab.node("replica").server()).wait_for(BinaryLog(lab.node("source").server()).position())
    return lab.node("replica").server().checksum("lab.held") == lab.node("source").server().checksum("lab.held")


def test_the_data_are_on_md_and_each_disk_keeps_its_limits(lab, array):
    """Measured through the array, counted by the disks."""
    array.limit(LIMITS)
    try:
        proofs = disks.prove(lab)
    finally:
        array.limit(Limits())

    assert {proof.what: proof.found for proof in proofs if not proof.ok} == {}
    assert "level=raid1" in array.status()
    assert "by vm (" in proofs[0].what


def test_the_guests_threads_are_what_is_looked_at(lab):
    """Not those of the container around it."""
    seen = sample(lab, "replica", 2)

    assert seen.applier.tid in {thread.tid for thread in seen.threads}


def test_md_goes_on_without_a_disk_and_rebuilds_an_exchanged_one(lab, array):
    """Nothing is lost, md says which member failed, and whole it is again."""
    array.disk("disk2").fail()
    lab.node("source").server().execute(
        "CREATE TABLE lab.held AS SELECT seq, REPEAT('x', 200) f FROM lab.seq_1_to_2000"
    )
    assert same_rows(lab)
    wait_until(lambda: "disk2=faulty" in array.status(), "md to fail the member")
    seen = []
    array.replace("disk2", seen.append)

    assert "degraded=0" in array.status() and seen[-1] == 100
    assert array.unreadable() == []
    assert same_rows(lab)
