"""A failover that would lose what was received is refused and changes nothing, in each state of a replica's threads."""

from contextlib import closing, contextmanager

import pytest
from replication_lab.faults.toxic_calibration import put
from replication_lab.lab import migrate, nodes
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import Storage
from replication_lab.probes.commit_latency import TABLE
from replication_lab.replication import failover
from replication_lab.world import catalogue, clock
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import APPLIER, Replica

from tests.lab import level as level_fixtures
from tests.lab.level import (
    CANDIDATES,
    OF_PAIRS,
    candidate,
    count,
    kill_source,
    level,
    param,
    progress,
    refused,
    settle,
    standing,
    status,
    write,
)

EVERYWHERE = [
    *(param(topology, engine) for engine in ("mariadb", "mysql-8.0") for topology in CANDIDATES),
    param("async", "mysql-5.6"),
]

labs, lab = level_fixtures.labs, level_fixtures.lab


# --- the states of a replica's threads --------------------------------------------------------------------------------


@contextmanager
def applier_stopped(lab, server):
    """Let two transactions arrive while the applier is stopped; yield how the refusal explains it."""
    Replica(server).stop_thread(APPLIER)
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
        # A statement that finds no row is no error: 5.6 sends statements by default.
        deleted = f"DELETE FROM {TABLE} WHERE id = {newest}"
        lab.node("source").server().execute("SET SESSION binlog_format = 'ROW'", deleted)
        clock.wait_until(lambda: not status(lab, server.name).applying, "the applier to fail")
        write(lab, "source", 1)
        kill_source(lab)
        yield "the applier stopped with the error .*; 2 transactions received and not applied"
        beside.execute(f"INSERT INTO {TABLE} (id, at) VALUES ({newest}, 0)")
    server.execute(*Replica(server).backlog().statements)


@contextmanager
def applier_behind(lab, server):
    """Let the applier wait for a lock on the table."""
    settle(lab)
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
    Replica(server).stop_thread(APPLIER)
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
    Replica(lab.node("replica").server()).stop_thread(APPLIER)
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
    Replica(lab.node("replica").server()).stop_thread(APPLIER)
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
    Replica(lab.node("replica").server()).stop_thread(APPLIER)

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
    Replica(lab.node(other).server()).stop_thread(APPLIER)
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
    Replica(lab.node("far").server()).stop_thread(APPLIER)
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
    Replica(lab.node("replica").server()).stop_thread(APPLIER)
    write(lab, "source", 2)
    kill_source(lab)
    before = standing(lab)
    with pytest.raises(LabError, match="the applier is stopped; 2 transactions received and not applied"):
        migrate.migrate(lab, "replica", Storage(level="single", disk="ssd"), print)

    assert standing(lab) == before
    assert migrate.unfinished(lab) is None


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", OF_PAIRS[:1], indirect=True)
def test_a_link_is_mended_while_its_source_is_dead(lab, command):
    """So that what a replica lacks can reach it afterwards; what cannot be measured is said so."""
    put(lab.link("source-replica"), catalogue.toxic("black-hole"))
    lab.node("source").kill()
    said = command("link", "set", "source-replica", "none", "--lab", lab.name)

    assert said.returncode == 0, said.stderr
    assert "its proxy lists no toxic; not verified: source does not answer" in said.stdout
    assert lab.link("source-replica").toxics() == []
