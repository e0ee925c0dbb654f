"""MHA on real servers: its failovers and planned changes land on the lab's links, and it says when it has ended."""

import pytest
from replication_lab.lab import managers, status, up
from replication_lab.lab.managers import manager_of
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.replication import failover
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.mysql.replica import Replica

from tests.conftest import ignoring_noise
from tests.lab.test_drills import surprises

pytestmark = pytest.mark.long


@pytest.fixture
def lab(docker, request):
    """Yield a lab of three servers that MHA manages."""
    topology, engine = request.param
    found = catalogue.topology(topology)
    asked = LabRequest(found, engine, "mha-test", manager=manager_of(found, engine, "mha", {"ping_interval": 1}))
    lab = up.up(asked, print)
    yield lab
    with signals.signals_held():
        lab.down()


def drilled(topology, name, tmp_path, engine="mysql-8.0", **settings):
    """Do a drill under MHA, with clients at HAProxy; return its result."""
    (drill,) = drill_set.at_endpoint([drill_set.load(topology, name)], "haproxy", {})
    (drill,) = drill_set.under_manager([drill], "mha", {name: str(value) for name, value in settings.items()})
    with drill_set.Labs(drill_set.lab_request(topology, engine, [drill]), print) as own, ignoring_noise():
        evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
    return drill_set.judged(evidence, tmp_path / "ledger")


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
    lab.service("mha").run("manager", "switch", "replica2")

    assert failover.sources(lab) == {"source": "replica2", "replica1": "replica2"}
    assert failover.takes_writes(lab, "replica2") and not failover.takes_writes(lab, "source")
    assert managers.prove_view(lab, lab.manager).ok


def test_a_lost_host_and_its_source_lose_nothing(tmp_path):
    """MHA does without ssh; everything that was acknowledged is on the replica."""
    result = drilled("semisync", "manager-host-killed", tmp_path)

    assert result.doubts == [] and surprises(result) == {}
    assert (result.figures["lost"], result.figures["failovers"], result.figures["false_failovers"]) == (0, 1, 0)


def test_a_frozen_source_is_never_replaced_while_replicas_reach_its_port(tmp_path):
    """The kernel still accepts connections for a frozen server, and that is all that the second check asks."""
    result = drilled("semisync", "manager-freeze", tmp_path)

    assert result.doubts == [] and result.figures["failovers"] == 0


def test_a_second_failover_within_the_pause_does_not_come(tmp_path):
    """MHA's guard against two servers that take turns; clients wait until a person acts."""
    result = drilled("semisync", "two-failovers", tmp_path)

    assert result.doubts == [] and (result.figures["failovers"], result.figures["not_failed_over"]) == (1, 1)
