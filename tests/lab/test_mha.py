"""MHA on real servers: its failovers and planned changes land on the lab's links, and it says when it has ended."""

import pytest
from replication_lab import replication
from replication_lab.lab import managers, status
from replication_lab.replication import failover
from replication_lab.world import clock
from replication_lab.world.mysql.replica import Replica

from tests.lab.test_drills import surprises
from tests.lab.under_manager import drilled, lab_under

pytestmark = pytest.mark.long


@pytest.fixture
def lab(docker, request):
    """Yield a lab of three servers that MHA manages."""
    with lab_under("mha", *request.param, ping_interval=1) as found:
        yield found


@pytest.mark.parametrize("lab", [("semisync-3", "mysql-8.0"), ("fanout", "mysql-5.7")], indirect=True)
def test_a_killed_source_is_replaced_across_the_links_of_the_lab(lab):
    """What MHA itself tells the other replica leads through Toxiproxy, and MHA says that it has ended."""
    source, *replicas = (node.name for node in lab.topology.nodes)
    lab.node(source).kill()
    clock.wait_until(lambda: "has ended" in managers.told(lab), "MHA to fail over and end", 60, every=0.5)
    new = next(name for name in replicas if failover.takes_writes(lab, name))
    (other,) = set(replicas) - {new}

    assert failover.following(lab, [other]) == {other: new}
    clock.wait_until(lambda: Replica(lab.node(other).server()).status().healthy, f"{other} to replicate", 20, every=0.2)
    dumps = [row["Host"] for row in lab.node(new).server().rows("SHOW PROCESSLIST") if "Dump" in row["Command"]]
    assert {host.rpartition(":")[0] for host in dumps} <= lab.service("toxiproxy").addresses() and dumps
    assert "MHA has ended after a failover" in status.view(lab).service

    lab.node(source).start_again()
    with managers.quieted(lab):
        failover.rejoin(lab, source, discard_errant=True)
    assert managers.prove_view(lab, lab.manager).ok


@pytest.mark.parametrize("lab", [("semisync-3", "mysql-8.0")], indirect=True)
def test_a_planned_change_leaves_every_other_server_a_replica(lab):
    """The old source included; the new one waits for acknowledgements, as the old one did."""
    done = replication.of(lab).switch_over("replica2")

    assert (done.old, done.repointed, done.left) == ("source", ["source", "replica1"], {}) and 0 < done.seconds < 30
    assert failover.sources(lab) == {"source": "replica2", "replica1": "replica2"}
    assert failover.takes_writes(lab, "replica2") and not failover.takes_writes(lab, "source")
    assert managers.prove_view(lab, lab.manager).ok


def test_a_lost_host_and_its_source_lose_nothing(tmp_path):
    """MHA does without ssh; everything that was acknowledged is on the replica."""
    result = drilled("mha", "manager-host-killed", tmp_path, "mysql-8.0")

    assert result.doubts == [] and surprises(result) == {}
    assert (result.figures["lost"], result.figures["failovers"], result.figures["false_failovers"]) == (0, 1, 0)


def test_a_frozen_source_is_never_replaced_while_replicas_reach_its_port(tmp_path):
    """The kernel still accepts connections for a frozen server, and that is all that the second check asks."""
    result = drilled("mha", "manager-freeze", tmp_path, "mysql-8.0")

    assert result.doubts == [] and result.figures["failovers"] == 0


def test_a_second_failover_within_the_pause_does_not_come(tmp_path):
    """MHA's guard against two servers that take turns; clients wait until a person acts."""
    result = drilled("mha", "two-failovers", tmp_path, "mysql-8.0")

    assert result.doubts == [] and (result.figures["failovers"], result.figures["not_failed_over"]) == (1, 1)
