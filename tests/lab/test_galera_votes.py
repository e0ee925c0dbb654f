"""Two nodes, the first with two votes: which continues without its peer, and which does not."""

import secrets

import pytest
from replication_lab.lab import up
from replication_lab.model.errors import LabError
from replication_lab.model.lab_request import LabRequest
from replication_lab.probes.galera import wait_until_synced
from replication_lab.world import catalogue, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.galera import GaleraNode


@pytest.fixture(scope="module")
def pair(docker):
    """Yield a cluster of two, its links without toxics."""
    topology = catalogue.topology("galera-2")
    images.ensure(up.image_names("mariadb", topology=topology))
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}"))
    lab.node("node1").server().execute("CREATE TABLE lab.t (id INT PRIMARY KEY)")
    yield lab
    with signals.signals_held():
        lab.down()


def test_the_casting_vote_goes_on_alone_and_the_other_does_not(pair):
    """Without node2, node1 takes writes; without node1, node2 refuses even to be read, until it is told to go on."""
    first, second = pair.node("node1").server(), pair.node("node2").server()
    pair.node("node2").kill()
    wait_until(lambda: GaleraNode(first).status().size == 1, "node1 to be alone")
    first.execute("INSERT INTO lab.t VALUES (1)")
    pair.node("node2").start_again()
    wait_until(pair.node("node2").is_healthy, "node2 healthy")
    wait_until_synced([pair.node("node1").server(), pair.node("node2").server()], 2)

    second = pair.node("node2").server()
    pair.node("node1").kill()
    wait_until(lambda: not GaleraNode(second).status().primary, "node2 to have no majority")
    with pytest.raises(LabError, match="1047"):
        second.value("SELECT COUNT(*) FROM lab.t")
    second.execute("SET GLOBAL wsrep_provider_pc_bootstrap = ON")
    wait_until(lambda: GaleraNode(second).status().synced, "node2 to go on")

    assert second.value("SELECT COUNT(*) FROM lab.t") == 1
    pair.node("node1").start_again()
    wait_until(pair.node("node1").is_healthy, "node1 healthy")
    assert pair.node("node1").server().value("SELECT COUNT(*) FROM lab.t") == 1
