"""Clients wait for another node on purpose, on real servers, and `lab diagnose` has to name that node and the cause."""

import secrets
import threading
from contextlib import contextmanager

import pytest
from replication_lab import replication
from replication_lab.faults.cut import Cut
from replication_lab.lab import up
from replication_lab.lab.diagnosis import diagnosed
from replication_lab.model.drill.evidence import longest_queues
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes.bottleneck import Bottleneck
from replication_lab.runner.watched import watching
from replication_lab.witnesses import sampled, servers
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.replica import Replica, ReplicaThread

# A disk is limited and measured.
pytestmark = [pytest.mark.long, pytest.mark.alone]

SECONDS, CLIENTS = 4, 8
# A limit of its CPUs would delay the messages of the whole group, and leave the queue short.
SLOW = Limits(flush_us=50_000)
RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
# Readings are so far apart here that no change is seen by them.
BETWEEN_SECONDS = 6
LIMITS = {
    "galera": {"wsrep_provider_gcs_fc_limit": 16},
    "group": {"group_replication_flow_control_applier_threshold": 100},
}
QUEUE, OTHER = {"galera": "receive_queue", "group": "apply_queue"}, {"galera": "send", "group": "certify"}


@contextmanager
def started(name, engine):
    """Yield a lab without toxics, with a table for the clients; the last node of a cluster has a disk of its own."""
    topology = catalogue.topology(name)
    levels = ["node3=single"] if name in LIMITS else []
    storage = up.storage_of(name, levels, disk="unlimited", disks=0, mib=2048, backend="auto")
    images.ensure(up.image_names(engine, topology=topology, storage=storage))
    placed = overlay.with_backend(storage)
    lab = project.start(LabRequest(topology, engine, f"test-{secrets.token_hex(4)}", storage=placed))
    try:
        kind = replication.of(lab)
        wait_until(lambda: all(kind.stands(node) for node in kind.names), "all nodes", 120)
        for node in kind.names:
            lab.node(node).server().set_global(**RELAXED, **LIMITS.get(name, {}))
        kind.writer().execute("CREATE TABLE lab.wide (id INT AUTO_INCREMENT PRIMARY KEY, filler VARCHAR(500))")
        kind.wait_until_caught_up()
        yield lab
    finally:
        with signals.signals_held():
            lab.down()


GALERA = ("galera", "mariadb")


@pytest.fixture(scope="module", params=[GALERA, ("group", "mysql-8.0")], ids=["galera", "group"])
def cluster(request, docker):
    with started(*request.param) as lab:
        yield lab


@contextmanager
def written(lab, node):
    """Let clients insert rows on a node within the block."""
    ended = threading.Event()

    def insert():
        with lab.another().node(node).server().session() as session, session.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("INSERT INTO lab.wide (filler) VALUES (REPEAT('x', 400))")
                session.commit()

    clients = [threading.Thread(target=insert, daemon=True) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join(30)


def test_the_node_that_sets_flow_control_is_named_on_the_others(cluster):
    """Its own bottleneck is what makes it slow."""
    kind, disk = replication.of(cluster), array.array(cluster, "node3")
    cluster.node("node3").server().set_global(innodb_flush_log_at_trx_commit=1)
    with written(cluster, "node1"):
        disk.limit(SLOW)
        wait_until(lambda: kind.queues()["node3"].length >= kind.queues()["node3"].limit, "a full queue", 60)
        found, seen = diagnosed(cluster, "node1", SECONDS)
        own, _ = diagnosed(cluster, "node3", SECONDS)
        disk.limit(Limits())
    cluster.node("node3").server().set_global(**RELAXED)

    assert found.bottleneck is Bottleneck.FLOW_CONTROL, (found, seen)
    assert "set by node3; next: ./lab diagnose node3" in found.because
    assert own.bottleneck in (Bottleneck.FSYNC, Bottleneck.DISK), own


def test_the_longest_queue_is_that_of_the_slow_node(cluster):
    """As drills and questions have it as a figure: by their readings, once a second."""
    kind, disk = replication.of(cluster), array.array(cluster, "node3")
    (limit,), queue = LIMITS[cluster.topology.name].values(), QUEUE[cluster.topology.name]
    cluster.node("node3").server().set_global(innodb_flush_log_at_trx_commit=1)
    disk.limit(SLOW)
    with written(cluster, "node1"), watching(kind, clock.timer()) as looked:
        wait_until(lambda: longest_queues(looked).get(f"{queue}.node3", 0) >= limit, "a full queue", 60)
    disk.limit(Limits())
    cluster.node("node3").server().set_global(**RELAXED)
    found = longest_queues(looked)

    assert found[f"{queue}.node1"] < limit, found
    assert {name.partition("_")[0] for name in found} == {queue.partition("_")[0], OTHER[cluster.topology.name]}


def test_of_equal_nodes_none_is_named(cluster):
    """The counter-check: the same load and the same small limit, and no node is slower."""
    kind = replication.of(cluster)
    kind.wait_until_caught_up()
    with written(cluster, "node1"):
        found, seen = diagnosed(cluster, "node1", SECONDS)

    assert "set by node" not in found.because, (found, seen)


def read_since(witness, moment):
    """Wait until the witness has read each node after this moment."""
    wait_until(lambda: all((each or 0) > moment for each in witness._last.values()), "readings", 30)


@pytest.mark.parametrize("cluster", [GALERA], indirect=True, ids=["galera"])
@pytest.mark.parametrize(
    ("name", "away", "told"),
    [("wsrep_desync", "ON", "Shifting SYNCED"), ("wsrep_cluster_address", "''", "Received NON-PRIMARY")],
)
def test_a_change_between_two_readings_is_told_by_the_log(cluster, monkeypatch, name, away, told):
    """The states before it and after it are equal."""
    monkeypatch.setattr(sampled, "EVERY_SECONDS", BETWEEN_SECONDS)
    node, zero = cluster.node("node2").server(), clock.timer()
    before, witness = repr(node.settings(name)[name]), servers.members(cluster)
    read_since(witness, zero)
    node.execute(f"SET GLOBAL {name} = {away}", f"SET GLOBAL {name} = {before}")
    read_since(witness, clock.timer())
    seen = {each.what for each in witness.observation(zero).contrary}
    witness.close()

    assert {one for one in seen if one.startswith("state was")} == set()
    assert any(one.startswith(f"node2 logged: {told}") for one in seen), seen


def test_a_cluster_without_a_majority_is_named_with_the_way_out(cluster):
    """The last test of a cluster: it does not come back."""
    for node in ("node2", "node3"):
        cluster.node(node).kill()
    kind = replication.of(cluster)
    wait_until(kind.lost_majority, "the last node to know it", 60)
    found, _ = diagnosed(cluster, "node1", 1)

    assert found.bottleneck is Bottleneck.MEMBERSHIP
    assert "no majority" in found.because and "./lab sql node1" in found.because


@pytest.fixture(scope="module")
def pair(docker):
    with started("semisync", "mariadb") as lab:
        yield lab


@contextmanager
def inserting(lab):
    """Let a client of the source insert one row, and yield once its session waits for something."""
    source, waits = lab.node("source").server(), "SHOW PROCESSLIST"
    client = threading.Thread(
        target=lab.another().node("source").server().execute,
        args=("INSERT INTO lab.wide (filler) VALUES ('x')",),
        daemon=True,
    )
    client.start()
    wait_until(lambda: any("aiting for" in (row["State"] or "") and row["Info"] for row in source.rows(waits)), "it")
    yield
    client.join(30)


def test_a_commit_that_hangs_waits_for_a_replica(pair):
    """The link is cut, and the source waits for longer than the test."""
    pair.node("source").server().set_global(rpl_semi_sync_master_timeout=600_000)
    fault = Cut(pair, ["source-replica"])
    fault.inject()
    with inserting(pair):
        found, seen = diagnosed(pair, "source", 2)
        fault.recover()
        fault.close()

    assert found.bottleneck is Bottleneck.ACKNOWLEDGEMENT, (found, seen)


def test_a_backup_that_locks_all_tables_is_a_lock(pair):
    """FLUSH TABLES WITH READ LOCK in another session."""
    with pair.node("source").server().session() as holder, holder.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        with inserting(pair):
            found, seen = diagnosed(pair, "source", 2)
            cursor.execute("UNLOCK TABLES")

    assert found.bottleneck is Bottleneck.LOCK, (found, seen)


def test_an_applier_that_was_stopped_is_named_with_the_cause(pair):
    """It is not slow."""
    replica = Replica(pair.node("replica").server())
    replica.stop_thread(ReplicaThread.APPLIER)
    found, _ = diagnosed(pair, "replica", 1)
    replica.start_thread(ReplicaThread.APPLIER)

    assert (found.bottleneck, found.because) == (Bottleneck.APPLIER, "the applier is stopped: by a statement")
