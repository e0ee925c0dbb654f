"""A failover that would lose what was received is refused and changes nothing, in each state of a replica's threads."""

import threading
import time
from contextlib import closing, contextmanager

import pytest
from replication_lab.faults.toxic_calibration import put
from replication_lab.lab import migrate, nodes, up
from replication_lab.model.errors import LabError
from replication_lab.model.storage import Storage
from replication_lab.probes.commit_latency import TABLE
from replication_lab.replication import failover
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker import images
from replication_lab.world.mysql import replica as replicas
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

# The replica that is promoted in each topology.
CANDIDATES = {"async": "replica", "semisync": "replica", "fanout": "near", "semisync-3": "replica1", "chain": "relay"}
# Seconds after which a refusal for a reason that is seen at once is late, on a busy machine too.
AT_ONCE = 5


def param(topology, engine, fast=False):
    fast = fast or (topology, engine) == ("async", "mariadb")
    return pytest.param((topology, engine), id=f"{topology}-{engine}", marks=[] if fast else pytest.mark.long)


EVERYWHERE = [
    *(param(topology, engine) for engine in ("mariadb", "mysql-8.0") for topology in CANDIDATES),
    param("async", "mysql-5.6"),
]
OF_PAIRS = [param("async", engine) for engine in ("mariadb", "mysql-8.0", "mysql-5.6")]


@pytest.fixture(scope="module")
def kept(new_lab):
    """Give a lab of a topology and an engine: the same one until a test has changed its roles."""
    labs = {}

    def lab(topology, engine):
        if (topology, engine) not in labs:
            for other in list(labs):
                labs.pop(other).down()
            images.ensure(up.image_names(engine))
            links = [link.name for link in catalogue.topology(topology).links]
            labs[topology, engine] = new_lab(topology, engine, toxics=dict.fromkeys(links, "lan"))
        return labs[topology, engine]

    yield lab, labs
    with signals.signals_held():
        for each in labs.values():
            each.down()


@pytest.fixture
def lab(kept, request, monkeypatch):
    """Yield a lab whose replicas are level; it is removed if the test has failed over, and repaired otherwise."""
    monkeypatch.setattr(failover, "STILL_SECONDS", 1)
    monkeypatch.setattr(replicas, "STILL_SECONDS", 1)
    start, labs = kept
    found = start(*request.param)
    yield found
    with signals.signals_held():
        try:
            repair(found)
        except (LabError, AssertionError):
            labs.pop(request.param).down()


def repair(lab):
    assert set(failover.sources(lab)) == set(lab.topology.sources)
    if lab.node("source").state()[0] == "exited":
        lab.node("source").start_again()
    clock.wait_until(lab.node("source").answers, "the source", 30)
    assert lab.node("source").server().settings("read_only") == {"read_only": "OFF"}
    for name in lab.topology.sources:
        Replica(lab.node(name).server()).start()
        level(lab, name)


def level(lab, name):
    Replica(lab.node(name).server()).wait_for(BinaryLog(lab.node("source").server()).position())


def candidate(lab):
    return CANDIDATES[lab.topology.name]


def count(lab, node):
    return lab.node(node).server().value(f"SELECT COUNT(*) FROM {TABLE}")


def write(lab, node, rows):
    lab.node(node).server().execute(*[f"INSERT INTO {TABLE} (at) VALUES (0)"] * rows)


def replicas_of_source(lab):
    return [name for name, source in lab.topology.sources.items() if source == "source"]


def kill_source(lab):
    """Kill the source once every replica has received what it has, and wait until their receivers have noticed."""
    end = BinaryLog(lab.node("source").server()).end()
    for name in replicas_of_source(lab):
        if not Replica(lab.node(name).server()).receives():
            continue
        clock.wait_until(lambda name=name: progress(lab, name).received == end, f"{name} to have received all")
    lab.node("source").kill()
    clock.wait_until(lambda: lab.node("source").state()[0] == "exited", "the source's end")
    for name in replicas_of_source(lab):
        clock.wait_until(lambda name=name: not status(lab, name).connected, f"{name} to have lost the source")


def status(lab, name):
    return Replica(lab.node(name).server()).status()


def progress(lab, name):
    return Replica(lab.node(name).server()).progress()


def standing(lab):
    """Return all that a refusal must not change: threads, positions, relay logs, GTIDs, fences."""
    found = {}
    for name in lab.topology.sources:
        server = lab.node(name).server()
        column, row = server.dialect.columns, next(iter(server.rows(server.dialect.replica_status)), {})
        kept = {
            key: each for key, each in row.items() if "Pos" in key or "File" in key or "Space" in key or "Set" in key
        }
        threads = row.get(column.io) == "No", row.get(column.sql)
        logs = lab.node(name).run("sh", "-c", "ls -l /var/lib/mysql/*relay-bin* || true")
        found[name] = kept, threads, logs, BinaryLog(server).gtids(), server.settings("read_only")
    fences = [lab.node("source").text_of(path) for path in ("/etc/mysql/conf.d/fenced.cnf", "/etc/my.cnf.d/fenced.cnf")]
    return found, fences


def refused(lab, said, seconds=AT_ONCE, **options):
    """Return the refusal of a failover, which changes nothing."""
    before, began = standing(lab), time.monotonic()
    with pytest.raises(LabError, match=said) as refusal:
        failover.failover(lab, candidate(lab), **options)
    assert time.monotonic() - began < seconds
    assert standing(lab) == before
    return refusal.value


# --- the states of a replica's threads --------------------------------------------------------------------------------


@contextmanager
def applier_stopped(lab, server):
    """Let two transactions arrive while the applier is stopped; yield how the refusal explains it."""
    Replica(server).stop_applier()
    write(lab, "source", 2)
    kill_source(lab)
    yield "the applier is stopped; 2 transactions received and not applied"
    server.execute(*Replica(server).backlog().statements)


@contextmanager
def both_stopped(lab, server):
    """Stop the receiver too, afterwards."""
    with applier_stopped(lab, server) as said:
        Replica(server).stop()
        yield said


@contextmanager
def applier_failed(lab, server):
    """Delete a row that the replica does not have, and write another one."""
    write(lab, "source", 1)
    level(lab, server.name)
    newest = lab.node("source").server().value(f"SELECT MAX(id) FROM {TABLE}")
    with closing(server.another()) as beside:
        beside.execute("SET SESSION sql_log_bin = 0", f"DELETE FROM {TABLE} WHERE id = {newest}")
        lab.node("source").server().execute(f"DELETE FROM {TABLE} WHERE id = {newest}")
        clock.wait_until(lambda: not status(lab, server.name).applying, "the applier to fail")
        write(lab, "source", 1)
        kill_source(lab)
        yield "the applier stopped with the error .*; 2 transactions received and not applied"
        beside.execute(f"INSERT INTO {TABLE} (id, at) VALUES ({newest}, 0)")
    server.execute(*Replica(server).backlog().statements)


@contextmanager
def applier_behind(lab, server):
    """Let the applier wait for a lock on the table."""
    with closing(server.connect()) as holder, holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {TABLE} WRITE")
        write(lab, "source", 2)
        kill_source(lab)
        yield "still applying: 2 transactions received and not applied"


STATES = [applier_stopped, both_stopped, applier_failed, applier_behind]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("lab", EVERYWHERE, indirect=True)
def test_what_was_received_and_not_applied_is_not_lost(lab, state):
    """Refused twice with the cause, without any change; promoted with every row once it is applied."""
    server = lab.node(candidate(lab)).server()
    with state(lab, server) as said:
        for _ in range(2):
            assert "--allow-data-loss" in refused(lab, said).next_step
    rows = count(lab, candidate(lab))
    clock.wait_until(lambda: not Replica(server).backlog(), "everything to be applied")
    done = failover.failover(lab, candidate(lab))

    assert (done.lacks, done.lost, done.left) == ("", 0, {})
    lab.node("source").start_again()
    clock.wait_until(lab.node("source").answers, "the old source", 30)
    assert count(lab, candidate(lab)) == count(lab, "source") >= rows


@pytest.mark.parametrize("lab", OF_PAIRS, indirect=True)
def test_what_a_refused_failover_has_seen_is_missed_though_the_server_was_started_again(lab):
    """MariaDB deletes its relay log then; MySQL applies it. The source sends it again."""
    server = lab.node("replica").server()
    Replica(server).stop_applier()
    write(lab, "source", 2)
    kill_source(lab)
    refused(lab, "2 transactions received and not applied")
    nodes.act(lab, "kill", ["replica"])
    nodes.act(lab, "start", ["replica"])
    if lab.node("replica").dialect.keep_relay_log:
        for _ in range(2):
            said = refused(lab, "the relay log was deleted; 2 transactions received and not applied")
        assert said.next_step.startswith("./lab start source, which sends them again; or ")
        lab.node("source").start_again()
    clock.wait_until(lambda: count(lab, "replica") == 4, "the rows", 30)

    assert failover.failover(lab, "replica").lost == 0


@pytest.mark.parametrize("lab", OF_PAIRS[:1], indirect=True)
def test_what_a_node_has_not_applied_is_kept_in_mind_when_the_lab_ends_it(lab):
    """No failover has looked at it before."""
    Replica(lab.node("replica").server()).stop_applier()
    write(lab, "source", 3)
    kill_source(lab)
    nodes.act(lab, "stop", ["replica"])
    nodes.act(lab, "start", ["replica"])

    refused(lab, "the relay log was deleted; 3 transactions received and not applied")


@pytest.mark.parametrize("lab", OF_PAIRS, indirect=True)
def test_a_loss_that_is_allowed_is_counted(lab):
    """By its GTIDs too."""
    write(lab, "source", 1)
    level(lab, "replica")
    Replica(lab.node("replica").server()).stop_applier()
    kept = count(lab, "replica")
    write(lab, "source", 2)
    kill_source(lab)
    refused(lab, "2 transactions")
    done = failover.failover(lab, "replica", allow_data_loss=True)

    assert done.lost == 2 and "2 transactions received and not applied: " in done.lacks
    assert count(lab, "replica") == kept
    lab.node("source").start_again()
    with pytest.raises(LabError, match="source has 2 transactions"):
        failover.rejoin(lab, "source")


@pytest.mark.parametrize("lab", OF_PAIRS, indirect=True)
def test_a_stopped_applier_without_anything_to_apply_is_no_obstacle(lab):
    """All of the source's transactions are applied."""
    Replica(lab.node("replica").server()).stop_applier()

    assert failover.failover(lab, "replica").lost == 0


# --- the other replicas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lab",
    [param("fanout", "mariadb", fast=True), param("fanout", "mysql-8.0"), param("semisync-3", "mariadb")],
    indirect=True,
)
def test_another_replica_that_has_not_applied_what_it_received_is_left_as_it_is(lab):
    """Its relay log would be gone. It comes back without a loss: the new source has all of it."""
    new = candidate(lab)
    [other] = set(lab.topology.sources) - {new}
    Replica(lab.node(other).server()).stop_applier()
    write(lab, "source", 2)
    kill_source(lab)
    before = standing(lab)[0][other]
    done = failover.failover(lab, new)

    assert done.repointed == []
    assert done.left[other].startswith("the applier is stopped; 2 transactions received and not applied: ")
    assert standing(lab)[0][other] == before
    failover.rejoin(lab, other)
    assert count(lab, other) == count(lab, new)


@pytest.mark.parametrize("lab", [param("fanout", "mariadb"), param("fanout", "mysql-8.0")], indirect=True)
def test_a_replica_that_alone_has_received_something_is_not_taken_back_before_it_is_applied(lab):
    """The refusal of `lab rejoin` changes nothing, either; the transactions are discarded on request."""
    lab.link("source-near").cut()
    Replica(lab.node("far").server()).stop_applier()
    write(lab, "source", 2)
    end = BinaryLog(lab.node("source").server()).end()
    clock.wait_until(lambda: progress(lab, "far").received == end, "far to have received all")
    lab.node("source").kill()
    clock.wait_until(lambda: not status(lab, "far").connected, "far to have lost the source")
    refused(lab, "near is behind: far has 2 transactions")
    done = failover.failover(lab, "near", allow_data_loss=True)
    lab.link("source-near").enable()

    assert (done.lost, list(done.left)) == (2, ["far"])
    before = BinaryLog(lab.node("far").server()).gtids(), Replica(lab.node("far").server()).received()
    with pytest.raises(LabError, match="far has 2 transactions") as refusal:
        failover.rejoin(lab, "far")
    assert "--discard-errant" in refusal.value.next_step
    assert (BinaryLog(lab.node("far").server()).gtids(), Replica(lab.node("far").server()).received()) == before
    assert failover.rejoin(lab, "far", discard_errant=True).discarded.startswith("2 transactions: ")
    assert count(lab, "far") == count(lab, "near")


@pytest.mark.parametrize("lab", OF_PAIRS[:1], indirect=True)
def test_a_migration_of_a_replica_that_alone_has_received_something_is_refused(lab):
    """Its server would start again without the relay log."""
    Replica(lab.node("replica").server()).stop_applier()
    write(lab, "source", 2)
    kill_source(lab)
    before = standing(lab)
    with pytest.raises(LabError, match="the applier is stopped; 2 transactions received and not applied"):
        migrate.migrate(lab, "replica", Storage(level="single", disk="ssd"), print)

    assert standing(lab) == before
    assert migrate.unfinished(lab) is None


# --- a source that hangs ----------------------------------------------------------------------------------------------


class Writer(threading.Thread):
    """A client that writes one row after another on the source, whatever happens; it notes what was confirmed."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.confirmed, self.failed, self.ended = lab, [], [], threading.Event()

    def run(self):
        number = 0
        while not self.ended.is_set():
            number += 1
            try:
                # A server that was started again has another port.
                server = self.lab.node("source").server().as_application()
                with server.session(answer_seconds=60) as session, session.cursor() as cursor:
                    cursor.execute(f"INSERT INTO lab.acknowledged VALUES ({number})")
                    self.confirmed.append(number)
            except LabError as error:
                self.failed.append((error.found, time.monotonic()))
            clock.pause(0.01, self.ended)


def ids(lab, node):
    return {row["id"] for row in lab.node(node).server().rows("SELECT id FROM lab.acknowledged")}


@pytest.mark.parametrize(
    "lab",
    [param("semisync", engine, engine == "mariadb") for engine in ("mariadb", "mysql-8.0", "mysql-5.6")],
    indirect=True,
)
@pytest.mark.parametrize("wait_point", ["AFTER_SYNC", pytest.param("AFTER_COMMIT", marks=pytest.mark.long)])
def test_a_source_whose_commits_wait_is_fenced_at_once_and_confirms_none_of_them(lab, wait_point):
    """Refused without a change as long as a waiting commit would be lost; then no client is told of one that is."""
    source = lab.node("source").server()
    if not (has := SemiSync(source).status().wait_point) and wait_point == "AFTER_SYNC":
        pytest.skip("5.6 has only AFTER_COMMIT")
    SemiSync(source).set(True, wait_point if has else None, 600_000)
    source.execute("CREATE TABLE IF NOT EXISTS lab.acknowledged (id INT PRIMARY KEY)", "DELETE FROM lab.acknowledged")
    level(lab, "replica")
    writer = Writer(lab)
    writer.start()
    clock.wait_until(lambda: len(writer.confirmed) > 3, "confirmed rows")
    put(lab.link("source-replica"), catalogue.toxic("black-hole"))
    state = "semi-sync ACK"
    clock.wait_until(
        lambda: any(state in (row["State"] or "") for row in source.rows("SHOW PROCESSLIST")), "a commit that waits"
    )
    try:
        started = lab.node("source").started_at()
        refused(lab, "replica is behind: ", seconds=10)
        assert lab.node("source").started_at() == started
        waits, began = len(writer.failed), time.monotonic()
        done = failover.failover(lab, "replica", allow_data_loss=True)
        fenced_after = writer.failed[waits][1] - began
        said = len(writer.confirmed)
        clock.wait_until(lambda: "read-only" in writer.failed[-1][0], "the writer to be refused")
    finally:
        writer.ended.set()
        writer.join()

    assert "source had commits or locks that waited: it was killed and starts again as read-only" in done.fenced
    assert fenced_after < AT_ONCE
    assert len(writer.confirmed) == said, "a commit was confirmed after the fence"
    assert set(writer.confirmed) <= ids(lab, "replica")
    assert done.lost >= 1 and "source has" in done.lacks


@pytest.mark.parametrize("lab", OF_PAIRS, indirect=True)
def test_a_frozen_source_does_not_make_a_failover_wait(lab):
    """It is killed, since it would go on with its commits when it is resumed; then it is compared like any other."""
    write(lab, "source", 1)
    level(lab, "replica")
    lab.node("source").pause()
    began = time.monotonic()
    done = failover.failover(lab, "replica")

    assert "source was frozen: it was killed and starts again as read-only" in done.fenced
    assert time.monotonic() - began < 4 * AT_ONCE
    assert count(lab, "source") == count(lab, "replica")
    with pytest.raises(LabError, match="read-only"):
        lab.node("source").server().as_application().execute("CREATE TABLE lab.refused (id INT)")


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", OF_PAIRS[:1], indirect=True)
def test_a_link_is_mended_while_its_source_is_dead(lab, command):
    """So that what a replica lacks can reach it afterwards; what cannot be measured is said so."""
    put(lab.link("source-replica"), catalogue.toxic("black-hole"))
    lab.node("source").kill()
    said = command("toxic", "source-replica", "none", "--lab", lab.name)

    assert said.returncode == 0, said.stderr
    assert "its proxy lists no toxic; not verified: source does not answer" in said.stdout
    assert lab.link("source-replica").toxics() == []
