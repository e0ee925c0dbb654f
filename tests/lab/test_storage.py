"""Nodes on arrays of emulated disks, on real kernels: limits, failures, rebuilding, and what is left behind."""

import json
import os
import secrets
import signal

import pytest
from replication_lab.faults.disks import changed
from replication_lab.lab import disks, up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks import overlay
from replication_lab.world.docker import engine, images, project
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.lab.conftest import things_of

# What disks do is measured, and labs are left behind on purpose that any command of another test would sweep.
pytestmark = pytest.mark.alone

NODES = {"far": "raid0", "near": "raid1"}
SMALL = {"disk": "sata-7200-tenth", "disks": 0, "mib": 1024, "backend": "auto"}
# To read all of it at 80 requests a second takes a minute.
READ_SOON = Limits(read_iops=1600, write_iops=410, write_cache=True)
ROWS = 2000


@pytest.fixture(scope="module")
def lab(docker):
    """Yield one source, a replica on RAID0 and one on RAID1 of two slow disks each, links without toxics."""
    storage = up.storage_of("fanout", [f"{node}={level}" for node, level in NODES.items()], **SMALL)
    topology = catalogue.topology("fanout")
    images.ensure(up.image_names("mariadb", topology=topology, storage=storage))
    placed = overlay.with_backend(storage)
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", storage=placed))
    source = lab.node("source").server()
    source.execute("CREATE TABLE lab.held (id INT PRIMARY KEY, filler CHAR(200)) ENGINE=InnoDB")
    source.execute(f"INSERT INTO lab.held SELECT seq, REPEAT('x', 200) FROM lab.seq_1_to_{ROWS}")
    yield lab
    with signals.signals_held():
        lab.down()


def same_rows(lab, node):
    Replica(lab.node(node).server()).wait_for(BinaryLog(lab.node("source").server()).position())
    return lab.node(node).server().checksum("lab.held") == lab.node("source").server().checksum("lab.held")


def test_data_are_on_the_arrays_and_each_disk_keeps_its_limits(lab):
    """Every proof of `lab up`, on both arrays."""
    assert {proof.what: proof.found for proof in disks.prove(lab) if not proof.ok} == {}


def test_raid1_writes_everything_twice_and_raid0_once(lab):
    """The members of RAID1 have done the same writes; those of RAID0 share them."""
    for array in arrays.arrays(lab).values():
        same_rows(lab, array.node)
    before = {node: written(array) for node, array in arrays.arrays(lab).items()}
    lab.node("source").server().execute("UPDATE lab.held SET filler = REPEAT('y', 200)")
    assert same_rows(lab, "near") and same_rows(lab, "far")
    for node in NODES:
        write_out(lab.node(node).server())
    grown = {
        node: [now - then for now, then in zip(written(array), before[node], strict=True)]
        for node, array in arrays.arrays(lab).items()
    }
    first, second = grown["near"]

    assert first > 0 and second > 0
    assert abs(first - second) <= 0.1 * first, grown
    assert sum(grown["near"]) >= 1.5 * sum(grown["far"]), grown


def write_out(server):
    """Write every changed page of the table to the disks."""
    server.execute("FLUSH TABLES lab.held FOR EXPORT")
    server.execute("UNLOCK TABLES")


def written(array):
    return [spindle.stats().written_bytes for spindle in array.disks.values()]


def _measured_within(array, disk, write_iops):
    """Return what all disks do, if this one keeps its limit: a busy machine measures a disk as slower than it is."""
    measured = array.measure()
    return measured if arrays.within(measured[disk].write_iops, write_iops) else None


def test_a_limit_changes_while_the_disk_is_used_and_is_measured(lab):
    """`lab disk limit` acts from the next request on, and `lab disk check` measures what is set now."""
    array = arrays.array(lab, "far")
    disks.change_limits(lab, "far", "disk1", ["write_iops=100"])
    try:
        kept = wait_until(lambda: _measured_within(array, "disk1", 100), "disk1 at 100 writes/s", 30)
        assert kept["disk2"].write_iops > 300, kept
    finally:
        array.limit(catalogue.disk(SMALL["disk"]).limits)


def test_a_limit_that_silently_does_nothing_is_not_so(lab, monkeypatch):
    """The sabotage: the disk says that it is slow, and is not."""
    array = arrays.array(lab, "far")
    monkeypatch.setattr(arrays, "TRIES", 1)
    monkeypatch.setattr(type(array.disk("disk1")), "limits", lambda self: Limits(read_iops=80, write_iops=50))

    assert [proof.ok for proof in disks.kept_limits(array)] == [False, False]


@pytest.mark.long
def test_raid1_goes_on_without_a_disk_and_rebuilds_an_exchanged_one(lab, command, monkeypatch):
    """Nothing is lost, the rebuilt disk alone holds everything, and healing stale data is refused.

    The moment in which a rebuild ends, and btrfs refuses questions, is met by asking all the time.
    """
    array = arrays.array(lab, "near")
    monkeypatch.setattr(arrays, "PROGRESS_SECONDS", 0)
    array.disk("disk2").fail()
    lab.node("source").server().execute("UPDATE lab.held SET filler = REPEAT('z', 200)")
    assert same_rows(lab, "near")
    write_out(lab.node("near").server())
    wait_until(lambda: array.disk("disk2").stats().errors, "a write that the failed disk refused")
    with pytest.raises(LabError, match="is stale"):
        disks.heal(lab, "near", "disk2")
    seen = []
    with changed([array], READ_SOON):
        array.replace("disk2", seen.append)
        array.limit(READ_SOON, "disk2")
        array.disk("disk1").fail()
        try:
            assert array.unreadable() == []
        finally:
            array.disk("disk1").heal()

    assert seen[-1] == 100
    assert same_rows(lab, "near")


@pytest.mark.long
def test_raid0_loses_its_data_with_a_disk_and_reading_says_so(lab, monkeypatch):
    """By reading every file past all caches; the other proofs still hold for the disk that is left."""
    array = arrays.array(lab, "far")
    # A failed disk keeps no limit, however often it is measured.
    monkeypatch.setattr(arrays, "TRIES", 2)
    # A file system that has something to write when a disk fails writes nothing more, with the disk back either; and a
    # server that has something to write then ends. So it is stopped meanwhile.
    assert same_rows(lab, "far")
    write_out(lab.node("far").server())
    container = lab.node("far").container
    container.reload()
    os.kill(container.attrs["State"]["Pid"], signal.SIGSTOP)
    array.write_back()
    array.disk("disk1").fail()
    try:
        with changed([array], READ_SOON):
            lost = array.unreadable()
            found = {proof.what: proof for proof in disks.check(lab, "far")}
    finally:
        array.disk("disk1").heal()
        os.kill(container.attrs["State"]["Pid"], signal.SIGCONT)

    assert "ibdata1" in lost
    assert not found["far's data can be read"].ok
    assert found["far-disk2 keeps its limits"].ok and not found["far-disk1 keeps its limits"].ok
    assert readable(lab, "far") and same_rows(lab, "far")


@pytest.mark.long
def test_a_disk_that_lies_is_noticed_by_who_checks_what_he_reads(lab, command):
    """No layer below the server sees it: each file can be read, and the page that was read is wrong."""
    server, needle = lab.node("far").server(), secrets.token_hex(16)
    lab.node("source").server().execute("CREATE TABLE lab.needle (id INT PRIMARY KEY, needle CHAR(32)) ENGINE=InnoDB")
    lab.node("source").server().execute(f"INSERT INTO lab.needle VALUES (1, '{needle}')")
    Replica(server).wait_for(BinaryLog(lab.node("source").server()).position())
    server.execute("FLUSH TABLES lab.needle FOR EXPORT")
    done = [command("disk", "corrupt", "far", disk, needle, "--lab", lab.name) for disk in ("disk1", "disk2")]
    server.execute("UNLOCK TABLES")

    assert any(one.returncode == 0 for one in done), [one.stderr for one in done]
    assert readable(lab, "far")
    assert "page" in innochecksum(lab, "far", "needle").lower()


def readable(lab, node):
    """Return whether every file of the node can be read from its disks."""
    return next(proof.ok for proof in disks.check(lab, node) if proof.what == f"{node}'s data can be read")


def innochecksum(lab, node, table):
    """Return the server's own tool's report on a table's pages, as they are on the disks."""
    file = f"/var/lib/mysql/lab/{table}.ibd"
    read = f"dd if={file} of=/tmp/{table}.ibd bs=16k iflag=direct status=none; innochecksum /tmp/{table}.ibd 2>&1; true"
    return lab.node(node).run("sh", "-c", read)


# Files of ever smaller size, until not even a small one is taken.
FILL = (
    "for size in 256M 32M 4M 512K 64K 4K; do n=0; "
    "while fallocate --length $size ballast-$size-$((n += 1)) 2>/dev/null; do :; done; done"
)


@pytest.mark.long
def test_a_full_disk_is_told_and_with_room_again_the_server_goes_on(lab, command):
    """By the server to its writers, by `lab status`, and in the doubts of an experiment."""
    array, server = arrays.array(lab, "near"), lab.node("near").server()
    # What it writes itself must not get between the source's transactions: strict mode then refuses those that follow.
    unlogged = "SET sql_log_bin = 0"
    server.execute(unlogged, "CREATE DATABASE own", "CREATE TABLE own.more (filler CHAR(200)) ENGINE=InnoDB")
    more = f"INSERT INTO own.more SELECT REPEAT('m', 200) FROM lab.seq_1_to_{20 * ROWS}"
    array.in_filesystem("bash", "-c", FILL)
    try:
        assert disks.full(array).startswith("near's disks are full")
        assert "FULL" in command("status", "--lab", lab.name).stdout
        with pytest.raises(LabError, match="full"):
            server.execute(unlogged, more)
    finally:
        array.in_filesystem("sh", "-c", "rm -f ballast*")
        # The file system gives the room back with its next commit, which a statement does not wait for.
        array.write_back()
    server.execute(unlogged, more, "DROP DATABASE own")

    assert disks.full(array) == ""
    assert same_rows(lab, "near")


def test_what_is_held_once_is_not_rebuilt(lab):
    """RAID0 has nothing to rebuild from."""
    with pytest.raises(LabError, match="no second copy"):
        arrays.array(lab, "far").replace("disk1")


def test_a_node_without_disks_says_so(lab):
    """The source keeps its data where the engine does."""
    with pytest.raises(LabError, match="no emulated disks"):
        arrays.array(lab, "source")


# --- what is left behind ----------------------------------------------------------------------------------------------


def host(*words):
    """Return what a command prints in a container that sees the devices of the host."""
    return (
        engine.client()
        .containers.run(
            arrays.IMAGE,
            ["-c", " ".join(words)],
            entrypoint="sh",
            remove=True,
            cap_drop=["ALL"],
            cap_add=["SYS_ADMIN"],
            device_cgroup_rules=["b 7:* rw", "c 10:237 rw"],
            volumes={"/dev": {"bind": "/dev", "mode": "rw"}},
        )
        .decode()
        .strip()
    )


@pytest.fixture
def foreign(docker):
    """Yield a loop device with an array's superblock that is not the lab's; it has to remain after each test."""
    made = host("truncate --size 128M /foreign && losetup --find --show /foreign")
    try:
        host("mkfs.btrfs --quiet --label not-the-labs", made, ">/dev/null")
        yield made
    finally:
        host("losetup --detach", made)


def loop_devices():
    return host("losetup --noheadings --raw --output NAME,REF").splitlines()


def links():
    return host(f"ls {overlay.LINKS} 2>/dev/null || true").split()


@pytest.mark.long
@pytest.mark.parametrize("moment", ["array started", "replica started"])
def test_a_start_that_is_killed_leaves_nothing_after_clean(name, foreign, start_command, command, moment):
    """SIGKILL of `lab up` half-way: containers, volumes, loop devices and links go, and only the lab's."""
    process = start_command("up", "async", "--lab", name, "--storage", "raid1", "--disk", "unlimited")
    service = f"replica-{moment.partition(' ')[0]}" if moment.startswith("array") else "replica"
    wait_until(lambda: any(service in thing for thing in things_of(name)), f"{service} of {name}")
    process.kill()
    process.wait()
    wait_until(lambda: command("clean", name).returncode == 0, "an orderly clean")

    assert things_of(name) == []
    assert name not in links()
    assert [line for line in loop_devices() if name in line] == []
    assert foreign in host("losetup --noheadings --raw --output NAME")
    assert "not-the-labs" in host("blkid --probe", foreign)


@pytest.mark.long
def test_a_data_directory_that_somebody_holds_is_named(name, command):
    """`lab down` names the volume, and how to find the container that uses it; once it is released, it succeeds."""
    assert command("up", "async", "--lab", name, "--storage", "single", "--disk", "unlimited").returncode == 0
    holder = engine.client().containers.run(
        "replication-lab/base", "sleep 600", detach=True, volumes={f"{name}_replica-data": {"bind": "/held"}}
    )
    try:
        done = command("down", "--lab", name)
        assert done.returncode == 2 and f"{name}_replica-data is in use" in done.stderr
    finally:
        holder.remove(force=True)

    assert command("clean", name).returncode == 0
    assert things_of(name) == [] and name not in links()


def test_disks_are_listed_as_data(lab, command):
    """`lab disk list --json`: every disk of every node, with its limits and what it has done."""
    found = json.loads(command("disk", "list", "--lab", lab.name, "--json").stdout)

    assert [f"{one['node']}-{one['disk']}" for one in found] == ["far-disk1", "far-disk2", "near-disk1", "near-disk2"]
    assert {one["limits"]["write_iops"] for one in found} == {410}
    assert all(one["backend"] in catalogue.backends() for one in found)
