"""Does each fault of a server's state prove that it took hold and is gone, and is it read all through meanwhile?"""

from contextlib import closing

import pytest
from replication_lab import faults
from replication_lab.faults.backup_lock import BackupLock
from replication_lab.faults.replica_threads import ApplierDelay, ApplierError, ApplierStop, ReceiverStop
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import parse_drill
from replication_lab.replication import received
from replication_lab.witnesses import sampled, servers
from replication_lab.world import catalogue, clock
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Backlog

from tests.fakes.machine import doubts
from tests.fakes.replica import lab_of_replicas

NODES = ["replica"]


def delayed(lab, nodes):
    return ApplierDelay(lab, nodes, 30)


ALL = [ApplierStop, ReceiverStop, ApplierError, delayed, BackupLock]


@pytest.fixture
def lab(monkeypatch):
    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not condition():
            raise LabError(f"timed out waiting for {what}", "it")

    monkeypatch.setattr(clock, "wait_until", wait_until)
    # What faults of other tests hold, which were not closed.
    monkeypatch.setattr(servers, "_held", {})
    monkeypatch.setattr(received, "comes_again", lambda *_: True)
    monkeypatch.setattr(sampled, "EVERY_SECONDS", 0.01)
    return lab_of_replicas()


def state_of(server):
    return server.io, server.sql, server.error, server.delay, frozenset(server.sessions), server.row or 0


@pytest.mark.parametrize("kind", ALL)
def test_a_fault_is_seen_and_gone_afterwards(lab, kind):
    """Proofs of its beginning, proofs of its end, and the server as it was."""
    server = lab.server("replica")
    before = state_of(server)
    fault = kind(lab, NODES)

    fault.inject()
    assert doubts(fault.verify()) == []
    assert state_of(server) != before
    fault.recover()
    assert doubts(fault.verify_recovered()) == []
    fault.close()

    assert state_of(server) == before


@pytest.mark.parametrize(
    ("kind", "ignores", "found"),
    [
        (ApplierStop, "STOP SLAVE SQL_THREAD", "the applier ran on replica"),
        (ReceiverStop, "STOP SLAVE IO_THREAD", "the receiver ran on replica"),
        (delayed, "MASTER_DELAY", "the delay of replica was 0 s, not 30 s"),
        (BackupLock, "FLUSH TABLES", "the session that held the lock had ended on replica"),
    ],
)
def test_a_fault_that_does_nothing_is_noticed(lab, kind, ignores, found):
    """Sabotage: the server says yes and does nothing."""
    lab.server("replica").ignores = (ignores,)
    fault = kind(lab, NODES)
    fault.inject()

    assert f"found {found}" in doubts(fault.verify())[0]


def test_an_applier_without_an_error_is_noticed(lab, refused):
    """The row is still there, so the applier goes on; another error is not the one that was asked for."""
    lab.server("replica").ignores = ("DELETE",)
    assert "the applier of replica to stop" in refused(ApplierError(lab, NODES).inject).found

    lab.server("replica").ignores = ()
    fault = ApplierError(lab, NODES)
    fault.inject()
    lab.server("replica").error = 1062
    assert "stopped without error 1032" in doubts(fault.verify())[0]


@pytest.mark.parametrize(
    ("kind", "ignores", "left"),
    [
        (ApplierStop, "START SLAVE", "the applier is stopped"),
        (ReceiverStop, "START SLAVE", "the receiver is stopped"),
        (ApplierError, "START SLAVE", "the applier is stopped by error 1032"),
        (delayed, "MASTER_DELAY", "the delay is 30 s, not 0 s"),
    ],
)
def test_what_stays_is_noticed(lab, kind, ignores, left):
    """The proof of the end asks the server."""
    fault = kind(lab, NODES)
    fault.inject()
    lab.server("replica").ignores = (ignores,)
    fault.recover()

    assert left in doubts(fault.verify_recovered())[-1]


def test_a_lock_that_outlives_its_session_is_noticed(lab):
    """Another session took it too."""
    fault = BackupLock(lab, NODES)
    fault.inject()
    lab.server("replica").sessions.add(99)
    fault.recover()

    assert "the lock is still held" in doubts(fault.verify_recovered())[-1]


def test_a_delay_that_nothing_waited_for_shows_nothing(lab):
    """No transaction came."""
    fault = delayed(lab, NODES)
    fault.inject()
    lab.server("replica").delay = 0
    fault.recover()

    assert "replica has waited for its delay" in doubts(fault.verify_recovered())[0]


def test_a_node_that_the_lab_promotes_is_held_by_nothing(lab):
    """The failover stops its applier."""
    delayed(lab, NODES).inject()
    lab.server("replica").sql = False
    assert servers._contrary(lab.name, "replica", lab.server("replica"))
    servers.release_all(lab, "replica")

    assert servers._contrary(lab.name, "replica", lab.server("replica")) == []


def test_a_promoted_node_whose_replication_was_only_stopped_has_no_delay_to_wait_for(lab):
    """As Pacemaker's agent leaves it."""
    fault = delayed(lab, NODES)
    fault.inject()
    lab.server("replica").sql = lab.server("replica").io = False
    fault.recover()

    assert not [each for each in doubts(fault.verify_recovered()) if "has waited" in each]


@pytest.mark.parametrize(
    ("kind", "end", "said"),
    [
        (ApplierStop, lambda server: setattr(server, "sql", True), "the applier ran on replica"),
        (ReceiverStop, lambda server: setattr(server, "io", True), "the receiver ran on replica"),
        (ApplierError, lambda server: setattr(server, "error", 0), "was stopped without error 1032"),
        (delayed, lambda server: setattr(server, "delay", 0), "the delay of replica was 0 s"),
        (BackupLock, lambda server: server.sessions.clear(), "had ended on replica"),
    ],
)
def test_a_state_that_another_program_ends_for_a_moment_is_seen(lab, kind, end, said):
    """It is so again when the fault is proved for the second time; what comes after the recovery does not count."""
    server, zero = lab.server("replica"), clock.timer()
    with closing(servers.held_states(lab)) as witness, closing(kind(lab, NODES)) as fault:
        fault.inject()
        clock.pause(0.1)
        assert witness.observation(zero).contrary == []
        had = dict(vars(server), sessions=set(server.sessions))
        end(server)
        clock.pause(0.1)
        vars(server).update(had)
        seen = {each.what for each in witness.observation(zero).contrary}
        fault.recover()
        many = len(witness.observation(zero).contrary)
        clock.pause(0.1)

        assert len(seen) == 1 and said in seen.pop()
        assert len(witness.observation(zero).contrary) == many


def test_threads_that_were_stopped_before_stay_stopped(lab):
    """Exactly itself is undone."""
    server = lab.server("replica")
    server.sql = False
    fault = ApplierStop(lab, NODES)
    fault.inject()
    fault.recover()

    assert not server.sql and doubts(fault.verify_recovered()) == []


@pytest.mark.parametrize("kind", [ApplierStop, ReceiverStop, ApplierError, delayed])
def test_a_replica_that_was_promoted_meanwhile_is_left_alone(lab, kind):
    """It has no thread, no delay, and no source."""
    fault = kind(lab, NODES)
    fault.inject()
    server = lab.server("replica")
    server.follows = False
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert not server.follows


def test_a_relay_log_that_nobody_sends_again_is_not_deleted(lab, monkeypatch, refused):
    """MariaDB deletes it if a thread starts while both are stopped; with the source gone it is the last copy."""
    fault = ApplierStop(lab, NODES)
    fault.inject()
    server = lab.server("replica")
    server.io = False
    monkeypatch.setattr(received, "comes_again", lambda *_: False)
    monkeypatch.setattr(received, "settled", lambda *_: Backlog({"0-1": [(11, 12)]}, "the applier is stopped; "))

    assert "2 transactions received and not applied" in refused(fault.recover).found
    assert not server.sql


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("{fault: applier-stop, targets: [source], seconds: 1}", "not every target replicates from a source"),
        ("{fault: applier-delay, targets: [replica], seconds: 1}", "applier-delay with the delay 0"),
        ("{fault: backup-lock, lock: no-such, targets: [source], seconds: 1}", "backup-lock with the lock no-such"),
        ("{fault: applier-stop, delay: 3, targets: [replica], seconds: 1}", "applier-stop with the delay 3"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_before_anything_starts(refused, step, found):
    """With the key, the fault and the target."""
    text = f"{{about: x, clients: {{source: 1}}, expected: [], steps: [{step}]}}"

    assert found in refused(parse_drill, "x", catalogue.topology("async"), text, faults.kinds()).found


@pytest.mark.parametrize("kind", ALL)
def test_the_servers_of_an_attached_project_are_left_as_they_are(refused, kind):
    """Their replication and their locks are their owner's."""
    attached = AttachedLab.__new__(AttachedLab)
    object.__setattr__(attached, "name", "shop")

    assert "shop is an attached project" in refused(kind, attached, NODES).found


def test_a_lock_that_a_server_does_not_have_is_refused(lab, refused):
    """MySQL 5.6 has none of its own for backups."""
    lab.server("replica").dialect = dialects()["mysql-5.6"]

    assert "replica has no lock for backups" in refused(BackupLock(lab, NODES, "backup").inject).found
