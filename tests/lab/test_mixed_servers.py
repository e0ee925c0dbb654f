"""Do nodes run different servers, and is a pair that cannot replicate refused with the server's own reason?"""

import json

import pytest
from replication_lab.world import lab_files
from replication_lab.world.docker import project

# Other servers than the default one.
pytestmark = pytest.mark.long


def test_a_newer_replica_follows_an_older_source(command, name):
    """Each node runs its own, by its own Compose configs, and the rows arrive."""
    answer = command("up", "async", "--engine", "source=mariadb-10.1", "--engine", "replica=mariadb", "--lab", name)

    assert answer.returncode == 0, answer.stderr
    lab = project.find(name)
    versions = {node.name: lab.node(node.name).server().version() for node in lab.topology.nodes}
    assert versions["source"].startswith("10.1.") and versions["replica"].startswith("11.8.")
    assert lab.engine == "source=mariadb-10.1 replica=mariadb"
    assert lab_files.saved_state(lab.name).proofs and all(proof.ok for proof in lab_files.saved_state(lab.name).proofs)


def test_a_pair_that_cannot_replicate_is_refused_in_the_servers_words(command, name):
    """MariaDB cannot replicate from MySQL with GTIDs: the lab is removed at once, before a health check times out."""
    answer = command("up", "async", "--engine", "source=mysql-8.0", "--engine", "replica=mariadb", "--lab", name)

    assert answer.returncode == 2
    assert "replica (mariadb) cannot replicate from source (mysql-8.0): " in answer.stderr
    assert "caching_sha2_password" in answer.stderr or "gtid" in answer.stderr.lower()
    assert name not in project.all_labs()


def test_a_drill_takes_different_servers(command):
    """The record has the version of each; nothing is lost."""
    answer = command(
        *("drill", "async", "--drill", "kill-replica", "--json"),
        *("--engine", "source=mariadb-10.1", "--engine", "replica=mariadb"),
    )
    found = json.loads(answer.stdout)

    assert answer.returncode in (0, 3), answer.stderr
    assert found["engines"] == ["source=mariadb-10.1 replica=mariadb"]
    assert found["environment"]["labs"][0]["version"].startswith("source 10.1.23-MariaDB")
    assert found["drills"][0]["figures"]["lost"] == 0
