"""What goes wrong behind the lab's back while systems of three copies are compared ends in UNKNOWN with the reason."""

import secrets
import subprocess

import pytest
from replication_lab.experiments import load
from replication_lab.faults.cpu_and_memory import PERIOD_US
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import up
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.witnesses.servers import STAYED
from replication_lab.witnesses.told_changes import KEPT_RULES
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

from tests.lab.sabotage import judgement_of

EXPERIMENT = load("galera_vs_semisync")

ONE_COMMIT_WAITS, ONE_ROUND_TRIP = "galera-commit-waits", "after-sync-commit-is-one-round-trip"
A_SLOW_REPLICA = "slow-replica-does-not-throttle-semisync"


@pytest.fixture(scope="module")
def cluster(cluster, make_whole):
    """Yield three nodes of a Galera cluster, as the experiment gets them."""
    make_whole(cluster)
    yield cluster
    make_whole(cluster)


@pytest.fixture(scope="module")
def pair(docker):
    """Yield a source with two semi-synchronous replicas, as the experiment gets them."""
    topology = catalogue.topology("semisync-3")
    images.ensure(up.image_names("mariadb", load=True, topology=topology))
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", load=True))
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def of_cluster(cluster, tmp_path):
    """Return the judgement of one client's commit on the cluster when `act` happens during the load, and all doubts."""
    return lambda act: judgement_of(EXPERIMENT, ONE_COMMIT_WAITS, cluster, act, tmp_path)


@pytest.fixture
def of_pair(pair, tmp_path):
    """Return the judgement of one client's semi-synchronous commit with `act` during the load, and all doubts."""
    return lambda act: judgement_of(EXPERIMENT, ONE_ROUND_TRIP, pair, act, tmp_path)


@pytest.fixture
def of_slow_replica(pair, tmp_path):
    """Return the judgement of semi-sync with a slow replica when `act` happens during a load as the experiment's."""
    load = Inserts(64, seconds=1)
    return lambda act: judgement_of(EXPERIMENT, A_SLOW_REPLICA, pair, act, tmp_path, load)


# In `make test` claims of this experiment are judged without a doubt, which shows the same.
@pytest.mark.long
@pytest.mark.alone
def test_without_sabotage_the_cluster_is_not_doubted(of_cluster):
    """The counter-check: two rounds left alone are decided or merely undecided, never doubtful."""
    _, doubts = of_cluster(lambda lab: None)

    assert doubts == ""


def test_one_link_of_six_without_its_toxic_is_unknown(of_cluster):
    """Five slowed links are not a WAN between each two nodes."""
    judgement, doubts = of_cluster(lambda lab: clear(lab.link("node2-node3")))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "of the load the round trip was shorter than 76.5 ms" in doubts


def test_a_node_that_left_and_came_back_is_unknown(of_cluster):
    """At the end all three are Synced as before; the number of views shows that a node had left meanwhile."""

    def leave_and_return(lab):
        node = lab.node("node3").server()
        address = node.settings("wsrep_cluster_address")["wsrep_cluster_address"]
        node.set_global(wsrep_cluster_address="")
        node.set_global(wsrep_cluster_address=address)

    judgement, doubts = of_cluster(leave_and_return)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{STAYED}: at " in doubts and "s view was " in doubts


@pytest.mark.parametrize(
    ("seconds", "seen"),
    [
        pytest.param(1, "state was Donor/Desynced on node3", marks=pytest.mark.long),
        (0, "node3 logged: Shifting SYNCED -> DONOR/DESYNCED"),
    ],
)
def test_a_node_that_desynchronized_for_a_moment_is_unknown(of_cluster, seconds, seen):
    """At the end it is in sync again, and no node has left; a change between two readings is in the node's log."""

    def desynchronize(lab):
        node = lab.node("node3").server()
        for switch in ("ON", "OFF"):
            node.execute(f"SET GLOBAL wsrep_desync = {switch}")
            clock.pause(seconds)

    judgement, doubts = of_cluster(desynchronize)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{STAYED}: at " in doubts
    assert f"s {seen}" in doubts


def test_a_rule_that_was_taken_off_for_a_moment_is_unknown(of_cluster):
    """New connections to a peer do not cross the proxy meanwhile; at the end all rules are there."""

    def take_off(lab):
        sidecar = str(lab.service("sidecar3").container.id)
        for change in ("-D", "-A"):
            jump = f"iptables -t nat {change} OUTPUT -j LAB-TO-PEER"
            subprocess.run(["docker", "exec", sidecar, *jump.split()], check=True)
            clock.pause(1)

    judgement, doubts = of_cluster(take_off)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{KEPT_RULES}: at " in doubts
    assert "s sidecar3: iptables -t nat -D OUTPUT -j LAB-TO-PEER" in doubts


def test_a_replica_that_stopped_is_unknown(of_pair):
    """The second replica acknowledges every commit, but two copies are not three."""
    judgement, doubts = of_pair(lambda lab: Replica(lab.node("replica2").server()).stop())

    assert judgement.verdict is Verdict.UNKNOWN
    assert "replica2 replicates" in doubts


# `make test` does the same to one replica in test_sabotage.
@pytest.mark.long
def test_a_fall_back_to_asynchronous_is_unknown(of_pair):
    """Both replicas stop; the source waits for its timeout and goes on alone."""

    def leave_alone(lab):
        SemiSync(lab.node("source").server()).set(True, timeout_ms=300)
        for name in ("replica1", "replica2"):
            Replica(lab.node(name).server()).stop()

    judgement, doubts = of_pair(leave_alone)

    assert judgement.verdict is Verdict.UNKNOWN
    assert "acknowledged" in doubts


@pytest.mark.long
@pytest.mark.alone
def test_without_sabotage_the_slow_replica_is_not_doubted(of_slow_replica):
    """The counter-check: a replica of a source with 64 clients runs into its limit."""
    _, doubts = of_slow_replica(lambda lab: None)

    assert doubts == ""


def test_a_slow_replica_that_got_its_cpu_back_is_unknown(of_slow_replica):
    """A replica that is as fast as the second one shows nothing about slow ones."""
    judgement, doubts = of_slow_replica(lambda lab: lab.node("replica2").limit_cpu(0, PERIOD_US))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "replica2 is limited to 0.1 of a CPU" in doubts
