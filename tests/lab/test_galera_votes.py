"""Two nodes, the first with two votes, or with an arbitrator: which continues without its peer, and which does not."""

import secrets

import pytest
from replication_lab import replication
from replication_lab.lab import nodes, status, up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes.galera import wait_until_synced
from replication_lab.world import catalogue, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, project
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.galera import GaleraNode


def _started(name: str) -> Lab:
    """Start a topology of MariaDB; its links have no toxics."""
    topology = catalogue.topology(name)
    images.ensure(up.image_names("mariadb", topology=topology))
    return project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}"))


@pytest.fixture(scope="module")
def pair(docker):
    """Yield a cluster of two, its links without toxics."""
    lab = _started("galera-2")
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


def test_two_clusters_that_were_written_separately_are_named(pair):
    """Apart by their views; joined again at the same number all are Synced, and only the rows show it.

    It leaves the pair with two histories: it is the last test of this file.
    """
    first, second = pair.node("node1").server(), pair.node("node2").server()
    links = [pair.link(link.name) for link in pair.topology.links]
    kind = replication.of(pair)
    wait_until_synced([first, second], 2)
    assert kind.separate_histories() == []
    for link in links:
        link.cut()
    wait_until(lambda: not GaleraNode(second).status().primary, "node2 to have no majority")
    second.execute("SET GLOBAL wsrep_provider_pc_bootstrap = ON")
    wait_until(lambda: all(GaleraNode(one).status().synced for one in (first, second)), "both to be Primary alone")
    first.execute("INSERT INTO lab.t VALUES (10)")
    second.execute("INSERT INTO lab.t VALUES (20)")

    assert kind.separate_histories(small=True) == ["two clusters, written separately: node1 does not see node2"]

    for link in links:
        link.enable()
    nodes.act(pair, "stop", ["node2"])
    serving, separate = nodes.act(pair, "start", ["node2"])
    pair.refresh()
    wait_until_synced([pair.node(name).server() for name in ("node1", "node2")], 2)

    assert serving.ok and not separate.ok
    assert (
        "two clusters, written separately" in separate.found and "node2 differs from node1 in lab.t" in separate.found
    )
    assert status.view(pair).warnings == [separate.found]
    with pytest.raises(LabError, match="two clusters, written separately"):
        replication.of(pair).wait_until_together()


def test_of_two_sites_the_one_with_the_casting_vote_goes_on(docker):
    """While they are cut off, node1's site takes writes and the other one no reads; afterwards both have the row."""
    lab = _started("galera-6")
    try:
        first, far = lab.node("node1").server(), lab.node("node4").server()
        first.execute("CREATE TABLE lab.t (id INT PRIMARY KEY)")
        between = [lab.link(name) for name in lab.topology.toxics]
        for link in between:
            link.cut()
        wait_until(lambda: GaleraNode(first).status().size == 3, "the site of node1 to be alone")
        first.execute("INSERT INTO lab.t VALUES (1)")
        wait_until(lambda: not GaleraNode(far).status().primary, "node4 to have no majority")
        with pytest.raises(LabError, match="1047"):
            far.value("SELECT COUNT(*) FROM lab.t")
        for link in between:
            link.enable()
        wait_until_synced([lab.node(node.name).server() for node in lab.topology.nodes], 6)

        assert far.value("SELECT COUNT(*) FROM lab.t") == 1
    finally:
        with signals.signals_held():
            lab.down()


@pytest.mark.parametrize("name", ["cut-node", pytest.param("kill-node", marks=pytest.mark.long)])
def test_whichever_node_is_lost_the_other_goes_on_with_the_arbitrator(drilled, name):
    """The one that is cut off accepts nothing; both have the same rows afterwards."""
    result = drilled("galera-arbiter", name)

    assert {one.sentence: one.reason for one in result.judgements if one.verdict is not one.expected} == {}
    assert result.doubts == []
