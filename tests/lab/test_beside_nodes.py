"""Do clients and probes beside the nodes of a local lab do what those in the harness do?"""

import json
from contextlib import closing

import pytest
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.workloads.counters import Counters
from replication_lab.workloads.read_visibility import FirstSeen
from replication_lab.world.docker import beside_nodes

LINK = "source-replica"
# Both ways lead through bridges of the kernel; a busy machine delays some pings.
NEAR_MS = 0.5


@pytest.fixture
def beside():
    """Let clients run beside the nodes within the test."""
    beside_nodes.choose(beside_nodes.CONTAINER)
    yield
    beside_nodes.choose(None)


def test_a_round_trip_is_the_same_from_either_place(loaded):
    """The shortest of many: what a place adds, it adds to each."""
    found = {}
    for place in beside_nodes.PLACES:
        beside_nodes.choose(place)
        try:
            with closing(RoundTrip(loaded.link(LINK))) as probe:
                found[place] = min(probe.pings(50))
        finally:
            beside_nodes.choose(None)

    assert abs(found[beside_nodes.CONTAINER] - found[beside_nodes.HOST]) <= NEAR_MS, found


def test_clients_of_python_run_there(loaded, beside):
    """Transactions that collide, and a row that is seen: with the figures that they have here."""
    counters = Counters(clients=4, seconds=0.5, nodes=("source",))
    counters.prepare(loaded)
    figures = counters.run(loaded, 7).figures
    loaded.node("source").server().execute(
        "CREATE TABLE IF NOT EXISTS lab.foo (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(8))"
    )
    seen = FirstSeen(rows=3).run(loaded, 7)

    assert figures["commits"] > 10 and figures["lost_updates"] == figures["unacknowledged_updates"] == 0
    assert seen.figures["trials"] == 3
    assert loaded.clients_place is beside_nodes.of(loaded.service("source"))


@pytest.mark.long
def test_a_drill_with_clients_there_has_every_row(command):
    """Their container is removed with the lab."""
    drilled = command("drill", "semisync", "--drill", "lose-source", "--clients-from", "container", "--json")
    [drill] = json.loads(drilled.stdout)["drills"]

    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert {each["verdict"] for each in drill["expectations"]} == {"HOLDS"}
