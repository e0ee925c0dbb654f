"""Pacemaker on real servers: the majority promotes one, the address follows, and a stopped one is out of reach."""

import pytest
from replication_lab import replication
from replication_lab.lab import managers
from replication_lab.replication import failover
from replication_lab.world import clock
from replication_lab.world.mysql.replica import Replica

from tests.lab.test_drills import surprises
from tests.lab.under_manager import drilled, lab_under

pytestmark = pytest.mark.long


@pytest.fixture
def lab(docker):
    """Yield a lab of three servers that Pacemaker manages."""
    with lab_under("pacemaker", "semisync-3", "mariadb", interval=2) as found:
        yield found


def test_a_killed_source_is_replaced_across_the_links_of_the_lab(lab):
    """What the agent tells the other replica leads through Toxiproxy."""
    lab.node("source").kill()
    replicas = ("replica1", "replica2")
    clock.wait_until(lambda: any(failover.takes_writes(lab, name) for name in replicas), "a new source", 90, every=0.5)
    new = next(name for name in replicas if failover.takes_writes(lab, name))
    (other,) = {*replicas} - {new}

    clock.wait_until(lambda: failover.following(lab, [other]) == {other: new}, f"{other} to follow", 40, every=0.5)
    clock.wait_until(lambda: Replica(lab.node(other).server()).status().healthy, f"{other} to replicate", 20, every=0.2)

    def dumps():
        rows = lab.node(new).server().rows("SHOW PROCESSLIST")
        return {row["Host"].rpartition(":")[0] for row in rows if "Dump" in row["Command"]}

    # After a promotion the agent tells the replica once more whom to follow.
    assert clock.wait_until(dumps, f"{new} to send its log", 20, every=0.2) <= lab.service("toxiproxy").addresses()


def test_a_planned_change_leaves_every_other_server_a_replica(lab):
    """The old source included; the new one keeps its role once the constraint is gone."""
    done = replication.of(lab).switch_over("replica2")

    assert (done.old, done.repointed, done.left) == ("source", ["source", "replica1"], {}) and 0 < done.seconds < 60
    assert failover.takes_writes(lab, "replica2") and not failover.takes_writes(lab, "source")
    assert managers.prove_view(lab, lab.manager).ok


@pytest.mark.parametrize("name", ["lose-source", "manager-host-killed"])
def test_a_lost_source_and_a_lost_host_lose_nothing(tmp_path, name):
    """The majority of the machines promotes the replica, to which the address moves."""
    result = drilled("pacemaker", name, tmp_path, "mariadb", endpoint="address")

    # The agent lets an old source follow that is ahead, and the new one refuses it (error 1236).
    assert result.doubts == [] and surprises(result) == {}
    assert (result.figures["lost"], result.figures["failovers"], result.figures["false_failovers"]) == (0, 1, 0)


def test_a_source_that_is_frozen_for_ten_seconds_is_waited_for(tmp_path):
    """A check may take as long, and only then has it failed."""
    result = drilled("pacemaker", "manager-freeze", tmp_path, "mariadb", endpoint="address", timeout=25)

    assert result.doubts == [] and result.figures["failovers"] == 0


def test_a_source_without_its_majority_is_stopped(tmp_path):
    """Its machine does not hear the others. Without a fence they do not wait: a stop may take its timeout."""
    result = drilled("pacemaker", "manager-cut-off", tmp_path, "mariadb", endpoint="address", timeout=10)

    assert result.doubts == [] and result.figures["two_writable_s"] < 10
