"""Each resource is made the bottleneck on purpose, on real servers, and `lab diagnose` has to name it."""

import secrets
from contextlib import contextmanager

import pytest
from replication_lab.faults import toxic_calibration
from replication_lab.lab import up
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.probes.bottleneck import Bottleneck, diagnose
from replication_lab.probes.node_resources import sample
from replication_lab.world import catalogue, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

# What a disk or a CPU does is measured, and compared with its limit.
pytestmark = pytest.mark.alone

ROWS, WIDTH = 20_000, 500
SECONDS = 3
WAITING = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
FREE = {"cpu_period": 100_000, "cpu_quota": -1}
DURABLE = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}


@pytest.fixture(scope="module")
def lab(docker):
    """Yield a source, and a replica on a disk without limits; the link has no toxics."""
    topology = catalogue.topology("async")
    storage = up.storage_of("async", ["single"], disk="unlimited", disks=0, mib=2048, backend="auto")
    images.ensure(up.image_names("mariadb", topology=topology, storage=storage))
    placed = overlay.with_backend(storage)
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", storage=placed))
    source = lab.node("source").server()
    source.set_global(**RELAXED)
    source.execute(
        f"CREATE TABLE lab.wide (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, filler VARCHAR({WIDTH})) ENGINE=InnoDB",
        f"INSERT INTO lab.wide SELECT seq, 0, REPEAT('x', {WIDTH}) FROM lab.seq_1_to_{ROWS}",
        "CREATE TABLE lab.narrow (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0) ENGINE=InnoDB",
        f"INSERT INTO lab.narrow (id) SELECT seq FROM lab.seq_1_to_{ROWS}",
    )
    Replica(lab.node("replica").server()).wait_for(BinaryLog(source).position())
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def replica(lab):
    """Yield the replica's server with relaxed durability, level with its source before a test and after it."""
    server = lab.node("replica").server()
    server.set_global(**RELAXED)
    yield server
    lab.node("replica").container.update(**FREE)
    array.array(lab, "replica").limit(Limits())
    server.set_global(**RELAXED)
    Replica(server).start()
    Replica(server).wait_for(BinaryLog(lab.node("source").server()).position(), 120)


@contextmanager
def backlog(lab, statements, times):
    """Let the replica begin to apply a backlog of statements."""
    replica, source = lab.node("replica").server(), lab.node("source").server()
    replica.execute("STOP SLAVE SQL_THREAD")
    with source.session() as session, session.cursor() as cursor:
        for number in range(times):
            for statement in statements:
                cursor.execute(statement.format(number=number))
            session.commit()
    replica.execute("START SLAVE SQL_THREAD")
    yield


def diagnosed(lab, node="replica"):
    seen = sample(lab, node, SECONDS)
    return diagnose(seen), seen


def test_nothing_is_the_bottleneck_of_an_idle_node(lab, replica):
    """The counter-check: without any waits no resource is named."""
    found, seen = diagnosed(lab)

    assert found.bottleneck is Bottleneck.NONE, (found, seen)


def test_slow_writes_are_the_bottleneck_of_an_applier_that_waits_for_them(lab, replica):
    """Fifty writes a second, flushes free."""
    array.array(lab, "replica").limit(Limits(write_iops=50))
    replica.set_global(**DURABLE)
    with backlog(lab, ["UPDATE lab.wide SET n = n + 1 WHERE id = 1 + {number}"], 1500):
        found, seen = diagnosed(lab)
    array.array(lab, "replica").limit(Limits())

    assert found.bottleneck is Bottleneck.DISK, (found, seen)
    assert "writing" in found.because


@pytest.mark.long
def test_slow_flushes_are_told_from_slow_writes(lab, replica):
    """Twenty milliseconds a flush, writes free."""
    array.array(lab, "replica").limit(Limits(flush_us=20_000))
    replica.set_global(**DURABLE)
    with backlog(lab, ["UPDATE lab.wide SET n = n + 1 WHERE id = 1 + {number}"], 1500):
        found, seen = diagnosed(lab)
    array.array(lab, "replica").limit(Limits())

    assert found.bottleneck is Bottleneck.FSYNC, (found, seen)


@pytest.mark.long
def test_a_container_that_is_held_back_lacks_cpu(lab, replica):
    """A tenth of a CPU."""
    with backlog(lab, ["UPDATE lab.narrow SET n = n + 1"], 10):
        lab.node("replica").container.update(cpu_period=100_000, cpu_quota=10_000)
        found, seen = diagnosed(lab)
        lab.node("replica").container.update(**FREE)

    assert found.bottleneck is Bottleneck.CPU, (found, seen)


@pytest.mark.long
def test_an_applier_whom_nothing_hinders_is_itself_the_bottleneck(lab, replica):
    """CPUs, disk and locks are free, and one thread has more to do than it can."""
    with backlog(lab, ["UPDATE lab.narrow SET n = n + 1"], 150):
        found, seen = diagnosed(lab)

    assert found.bottleneck is Bottleneck.APPLIER, (found, seen)
    assert "it has one thread" in found.because


@pytest.mark.long
def test_a_row_that_somebody_holds_stops_the_applier(lab, replica):
    """A reader's lock on the replica, on the row that comes next."""
    with replica.session() as holder, holder.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT n FROM lab.wide WHERE id = 1 FOR UPDATE")
        lab.node("source").server().execute("UPDATE lab.wide SET n = n + 1 WHERE id = 1")
        # The table is a copy, which is refreshed only if it was not read for a tenth of a second.
        wait_until(lambda: replica.value(WAITING), "the applier to wait for the row", every=0.3)
        found, seen = diagnosed(lab)
        holder.rollback()

    assert found.bottleneck is Bottleneck.LOCK, (found, seen)


@pytest.mark.long
@pytest.mark.parametrize(("rows", "transactions"), [(2000, 1), (20, 100)])
def test_a_narrow_link_starves_the_applier(lab, replica, rows, transactions):
    """A hundred kilobytes a second, and a source that has written megabytes.

    A part of the transaction that is arriving is always received and not applied: that is not the applier's work.
    """
    link = lab.link("source-replica")
    for stream in ("upstream", "downstream"):
        link.add(ToxicBody(name=f"narrow-{stream}", type="bandwidth", stream=stream, attributes={"rate": 100}))
    try:
        for number in range(transactions):
            write = f"UPDATE lab.wide SET n = n + 1, filler = REPEAT('{number % 10}', 400) WHERE id <= {rows}"
            lab.node("source").server().execute(write)
        found, seen = diagnosed(lab)
    finally:
        toxic_calibration.clear(link)

    assert found.bottleneck is Bottleneck.NETWORK, (found, seen)
