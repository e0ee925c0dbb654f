"""Does a lab with many replicas, or with relays, come up proved, and do all commands work on it?"""

import json

import pytest
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, host, lab_files
from replication_lab.world.docker import leftovers, project
from replication_lab.world.docker.engine import client

from tests.lab.conftest import things_of

# What a further replica may cost: seconds of the start, and MiB of its container.
SECONDS, MIB = 0.5, 110


@pytest.fixture(scope="module")
def tree(command):
    """Yield what the command printed that started two relays and four replicas."""
    answer = command("up", "fanout", "--replicas", "4", "--relays", "2", "--lab", "test-tree")
    assert answer.returncode == 0, answer.stderr
    yield answer
    leftovers.remove("test-tree")


def test_every_link_and_every_replica_of_a_tree_is_proved(tree):
    """A link for each node below the source, and a row that arrives at each."""
    for link in ("source-relay", "source-relay2"):
        assert f"verified: link {link} is wan-85ms: round trip 8" in tree.stderr
    for link in ("relay-replica", "relay2-replica2", "relay-replica3", "relay2-replica4"):
        assert f"verified: link {link} is lan: round trip" in tree.stderr
    arrived = next(line for line in tree.stderr.splitlines() if "a row written on the source arrives" in line)
    assert arrived.count("2 of 2 on") == 6


def test_the_commands_take_its_nodes_and_links(tree, command):
    """The last replica and the last link, by their names."""
    (lab,) = json.loads(command("status", "--lab", "test-tree", "--json").stdout)
    roles = {node["name"]: node["role"] for node in lab["nodes"]}
    assert lab["topology"] == "fanout-x4-via2"
    assert [name for name, role in roles.items() if role == "relay"] == ["relay", "relay2"]

    said = command("sql", "replica4", "--lab", "test-tree", "-e", "SELECT @@server_id AS id", "--json")
    assert json.loads(said.stdout) == [{"id": 7}]

    assert command("link", "set", "relay2-replica4", "40ms", "--lab", "test-tree").returncode == 0
    assert project.find("test-tree").link("relay2-replica4").toxics()
    assert not project.find("test-tree").link("relay2-replica2").toxics()
    assert "LAB_REPLICA4_PORT" in command("env", "--lab", "test-tree").stdout


@pytest.mark.long
def test_a_replica_below_a_relay_that_has_stopped_is_no_proof(tree):
    """Sabotage: the relay no longer applies, so no row arrives at its own replicas."""
    lab = project.find("test-tree")
    relay = lab.node("relay2").server()
    stop, start = ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD")
    relay.execute(stop)
    try:
        with pytest.raises(LabError):
            up.prove(lab, {}, lambda _: None)
    finally:
        relay.execute(start)


def test_a_tree_is_recognised_without_its_files(tree):
    """The files are lost: the labels still say which topology it is."""
    settings = lab_files.file_of("test-tree", lab_files.SETTINGS)
    kept = settings.read_bytes()
    settings.unlink()
    try:
        assert project.find("test-tree").topology == catalogue.topology("fanout-x4-via2")
    finally:
        settings.write_bytes(kept)


def test_down_removes_all_of_a_tree(tree, command):
    """Also the Compose file that was made for it."""
    assert lab_files.file_of("test-tree", lab_files.TOPOLOGY).exists()
    assert command("down", "--lab", "test-tree").returncode == 0

    assert things_of("test-tree") == [] and not list(lab_files.FOLDER.glob("test-tree*"))


@pytest.mark.long
def test_a_drill_of_the_topology_runs_at_any_size(command):
    """The nodes of the file keep their names, so that its drills find them."""
    answer = command("drill", "fanout-x4", "--drill", "cut-far")

    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.long
@pytest.mark.alone
def test_a_further_replica_costs_half_a_second_and_110_mib(command, name):
    """Twenty replicas beside two. How long a start takes says nothing on a machine that is busy with other work."""
    took, is_busy = {}, host.load1() > 1
    for replicas in (2, 20):
        began = clock.timer()
        answer = command("up", "fanout", "--replicas", str(replicas), "--lab", name)
        took[replicas] = clock.timer() - began
        assert answer.returncode == 0, answer.stderr
        assert answer.stderr.count("verified: link") == replicas
        found = [client().api.stats(one.id, stream=False) for one in project.find(name).containers.values()]
        # As `docker stats` counts it: without the files that the kernel could drop.
        used = [each["memory_stats"] for each in found if "/replica" in each["name"] or f"{name}-near" in each["name"]]
        mib = [(each["usage"] - each["stats"].get("total_inactive_file", 0)) / (1 << 20) for each in used]
        assert max(mib) <= MIB
        assert command("down", "--lab", name).returncode == 0

    each = (took[20] - took[2]) / 18
    if is_busy and each > SECONDS:
        pytest.skip(f"{each:.2f} s for each replica, while other programs used the CPUs")
    assert each <= SECONDS, took
