"""All that the nodes of a cluster say to each other crosses Toxiproxy, and nothing gets past it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from replication_lab import replication
from replication_lab.faults import toxic_calibration as toxic_fault
from replication_lab.model.core.errors import LabError
from replication_lab.probes import round_trip
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.probes.galera import wait_until_synced
from replication_lab.world import catalogue
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.galera import GaleraNode

NODES = ("node1", "node2", "node3")
# As long as a busy machine may spoil one measurement after the other.
MEASURED_SECONDS = 60
TABLE = "CREATE TABLE IF NOT EXISTS lab.crossed (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200))"


@pytest.fixture(autouse=True)
def table(whole):
    """Create a table of these tests' own."""
    whole.node("node1").server().execute(TABLE)


def packets(lab, node, chain):
    """Return how many packets the rules of a chain have matched in a node's network."""
    listed = lab.service(f"sidecar{node[-1]}").run("iptables", "-t", "filter", "-vnxL", chain).splitlines()[2:]
    assert listed, f"{chain} of {node} has no rules"
    return sum(int(line.split()[0]) for line in listed)


def passed_by(lab):
    return {node: packets(lab, node, "LAB-REFUSE-OUT") + packets(lab, node, "LAB-REFUSE-IN") for node in NODES}


def write(lab, node="node1", rows=20):
    for _ in range(rows):
        lab.node(node).server().execute("INSERT INTO lab.crossed (text) VALUES (REPEAT('x', 200))")


def test_no_packet_goes_from_node_to_node(cluster):
    """Rules that match every packet with a peer's own address at its other end have met none, whichever node writes."""
    for node in NODES:
        write(cluster, node)
    replication.of(cluster).wait_until_caught_up()

    assert dict.fromkeys(NODES, 0) == passed_by(cluster)
    assert {60} == {cluster.node(node).server().value("SELECT COUNT(*) FROM lab.crossed") for node in NODES}


def test_the_counters_do_count(cluster):
    """The counter-check: a node that is led past the proxy is refused, and seen."""
    chain = ("iptables", "-t", "nat")
    rules = cluster.service("sidecar1").run(*chain, "-S", "LAB-TO-PEER").splitlines()[1:]
    cluster.service("sidecar1").run(*chain, "-F", "LAB-TO-PEER")
    try:
        with pytest.raises(LabError, match="refused"):
            cluster.node("node1").run("bash", "-c", "</dev/tcp/node2/4567")

        assert passed_by(cluster)["node1"] > 0
    finally:
        for rule in rules:
            cluster.service("sidecar1").run(*chain, *rule.split())
        cluster.service("sidecar1").run("iptables", "-Z", "LAB-REFUSE-OUT")


def test_without_the_proxy_nothing_flows(cluster, make_whole):
    """With every link off each node is alone, says so, and refuses; with the links back all three go on."""
    try:
        for link in cluster.topology.links:
            cluster.link(link.name).cut()
        alone = [cluster.node(node).server() for node in NODES]
        wait_until(
            lambda: not any(GaleraNode(server).status().primary for server in alone), "three nodes without a majority"
        )

        with pytest.raises(LabError, match="1047"):
            alone[0].value("SELECT COUNT(*) FROM lab.crossed")
    finally:
        make_whole(cluster)
    write(cluster)
    replication.of(cluster).wait_until_caught_up()

    assert 1 == len({cluster.node(node).server().value("SELECT COUNT(*) FROM lab.crossed") for node in NODES})
    assert dict.fromkeys(NODES, 0) == passed_by(cluster)


def _delivered(server):
    """Return the group's shortest recent delivery in ms, while something is written."""
    CommitLatency(server).commits(1)
    latency = GaleraNode(server).status().replication_ms
    return latency[0] if latency else 0


@pytest.mark.parametrize("toxic", ["wan-85ms", pytest.param("wan-200ms", marks=pytest.mark.long)])
def test_what_the_group_takes_follows_the_toxic(cluster, toxic):
    """The group's own latency and a commit's both come to at least the round trip that was put on the links."""
    asked = catalogue.toxic(toxic)
    server = cluster.node("node1").server()
    try:
        for link in cluster.topology.links:
            toxic_fault.put(cluster.link(link.name), asked)
        commits = CommitLatency(server).commits(8)
        # The group reports on periods of some seconds; the first may have begun before the toxics.
        wait_until(
            lambda: _delivered(server) >= 0.9 * asked.round_trip_ms, f"the group to take {asked.round_trip_ms} ms"
        )
    finally:
        for link in cluster.topology.links:
            toxic_fault.clear(cluster.link(link.name))

    assert min(commits) >= 0.9 * asked.round_trip_ms


@pytest.mark.long
def test_a_restarted_node_keeps_its_address_and_its_rules(cluster):
    """The network is the sidecar's: a node that was killed comes back to its address, and still not past the proxy."""
    before, rules = cluster.node("node3").addresses(), cluster.service("sidecar3").run("iptables-save")
    cluster.node("node3").kill()
    cluster.node("node3").start_again()
    wait_until(cluster.node("node3").is_healthy, "node3 healthy again")

    assert before == cluster.node("node3").addresses()
    assert _without_counters(rules) == _without_counters(cluster.service("sidecar3").run("iptables-save"))
    wait_until_synced([cluster.node(node).server() for node in NODES], 3)
    assert dict.fromkeys(NODES, 0) == passed_by(cluster)


def _without_counters(saved):
    return [line.split(" [")[0] for line in saved.splitlines() if not line.startswith("#")]


def test_only_the_sidecars_may_change_packet_rules(cluster):
    """No database has a capability; each sidecar has the one that it needs."""
    added = {service: container.attrs["HostConfig"]["CapAdd"] for service, container in cluster.containers.items()}

    assert {"sidecar1", "sidecar2", "sidecar3"} == {service for service, caps in added.items() if caps}
    assert {"NET_ADMIN"} == {cap.removeprefix("CAP_") for caps in added.values() for cap in caps or []}


@pytest.mark.long
def test_the_ports_of_a_link_share_its_rate(whole):
    """Large writesets cross the group's port while three connections cross SQL's: together they keep the rate.

    Which of two nodes has dialled is not known, so both links get the rate, and one of them carries the group.
    """
    server, asked, ended = whole.node("node1").server(), catalogue.toxic("8mbit"), threading.Event()
    down, up = asked.link_rates
    ways = [(whole.link("node1-node2"), up), (whole.link("node2-node1"), down)]
    server.execute("CREATE TABLE lab.wide (id INT AUTO_INCREMENT PRIMARY KEY, text LONGTEXT)")

    def write_on():
        while not ended.is_set():
            server.execute("INSERT INTO lab.wide (text) VALUES (REPEAT('x', 200000))")

    with ThreadPoolExecutor(1) as pool:
        try:
            for link, _ in ways:
                toxic_fault.put(link, asked)
            writing = pool.submit(write_on)
            wait_until(lambda: are_full(ways, asked), f"links that carry {asked.rate_kbps} KB/s", MEASURED_SECONDS)
        finally:
            ended.set()
            for link, _ in ways:
                toxic_fault.clear(link)
        writing.result()

    assert all(link.shares(body) is False for link, body in ways)


def are_full(ways, asked):
    """Return whether both links carry nine tenths of the rate, and one of them the group's data as well.

    More than the rate fails at once. Less may be the fault of a busy machine.
    """
    found = [measured(link, body) for link, body in ways]
    assert all(rate <= 1.1 * asked.rate_kbps for rate, _ in found), found
    return all(rate >= 0.9 * asked.rate_kbps for rate, _ in found) and max(share for _, share in found) > 1.1


def measured(link, body):
    """Return the KB/s of all connections together, and the bytes of all as a share of those that the lab sent."""
    assert link.shares(body)
    before = link.carried(body)
    rate = round_trip.sum_of_rates(link, body)
    return rate, (link.carried(body) - before) / (int(body.attributes["rate"]) * 1000 * round_trip.SECONDS)
