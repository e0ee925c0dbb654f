"""Packets between the machines of a replicated disk: what netem does in a guest is counted on both sides of it."""

import json
from contextlib import closing
from types import SimpleNamespace

import pytest
from replication_lab.faults.link_proof import realised
from replication_lab.faults.toxic_calibration import clear, put
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.lab.status import called
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import catalogue
from replication_lab.world.machines import drbd

from tests.lab.machines import two_machines, write

pytestmark = pytest.mark.long
LINK = "node1-node2"
CONDITION = "duplicate=5%+reorder=5%"
ASKED = catalogue.toxic(CONDITION)
# Packets between the two places at which they are counted.
ON_THEIR_WAY = 5
UP = {body.type: body for body in ASKED.of_packets if body.stream == "upstream"}
# Counts what DRBD's connections bring from the guest of a machine, before Toxiproxy's address replaces the peer's.
COUNT = ("iptables", "--table", "raw", "--{}", "PREROUTING", "--in-interface", "tap0", "--destination", "169.254.78.2")


@pytest.fixture(scope="module")
def pair(docker):
    """Start both machines; node1 serves."""
    with two_machines() as lab:
        yield lab


@pytest.fixture
def link(pair):
    """Yield the link without toxics; it is bare again afterwards, and both disks are equal."""
    pair.refresh()
    yield pair.link(LINK)
    clear(pair.link(LINK))
    drbd.wait_until_whole(pair)


def arrived(lab):
    """Return the packets that have left the guest of node1 for its peer, as its container's kernel counts them."""
    listed = lab.node("node1").run("iptables", "--table", "raw", "--list", "PREROUTING", "--verbose", "--exact")
    return int(next(line.split()[0] for line in listed.splitlines() if "169.254.78.2" in line))


def sent_and_arrived(link, lab):
    """Count what arrived between two readings of what was sent: DRBD also pings its peer meanwhile."""
    first, received, last = link.packets(UP["packet_duplicate"]), arrived(lab), link.packets(UP["packet_duplicate"])
    return SimpleNamespace(first=first, arrived=received, last=last)


@pytest.fixture
def counting(pair):
    """Let the container of node1 count what its guest sends to the peer."""
    command = [word.format("insert") for word in COUNT]
    pair.node("node1").run(*command)
    yield
    pair.node("node1").run(*[word.format("delete") for word in COUNT])


def test_the_command_proves_what_the_guests_do_and_the_other_kernel_counts_the_same(pair, link, command, counting):
    """Sent by the guest's counters, received by its container's: the difference is what netem duplicated."""
    done = command("link", "set", LINK, CONDITION, "--lab", pair.name, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (0, True), done.stdout + done.stderr
    assert "up 5" in found["found"] or "duplicated" in found["found"]
    pair.refresh()
    assert called([toxic.name for toxic in link.toxics()]) == [CONDITION]
    late = UP["packet_reorder"]
    overtaken = link.out_of_order(late)
    before = sent_and_arrived(link, pair)
    write(pair, "node1", 300)
    after = sent_and_arrived(link, pair)

    fewest, most = after.first.since(before.last), after.last.since(before.first)
    received = after.arrived - before.arrived
    assert fewest.hit > 0
    assert fewest.seen + fewest.hit - ON_THEIR_WAY <= received <= most.seen + most.hit + ON_THEIR_WAY, (before, after)
    assert link.out_of_order(late) > overtaken
    assert 0 == command("link", "set", LINK, "none", "--lab", pair.name).returncode
    assert link.toxics() == [] and "noqueue" not in pair.node("node1").run("guest", "tc", "filter", "show")


def test_without_netem_what_is_sent_arrives_in_order(pair, link):
    """So the packets that came out of order above were netem's."""
    before = link.out_of_order(UP["packet_reorder"])
    write(pair, "node1", 300)

    assert link.out_of_order(UP["packet_reorder"]) == before


def during(link, load, meanwhile=lambda: None):
    """Return the evidence of the effects during a load, by what was counted."""
    with closing(RoundTrip(link)) as probe, toxic_on(link, ASKED, ASKED, probe) as acting:
        load()
        meanwhile()
    return {fault.unit: fault for fault in acting.faults()}


def test_a_load_proves_what_happened_to_its_own_packets(pair, link):
    """What the serving machine sends is enough; without a load neither is seen."""
    found = during(link, lambda: write(pair, "node1", 800))

    for unit in ("% of packets duplicated up", "% of packets late up"):
        assert found[unit].seen, found[unit]
        assert found[unit].during.min <= 5 <= found[unit].during.max
    nothing = during(link, lambda: None)
    assert "too few to verify a duplication of 5 %" in nothing["% of packets duplicated up"].doubt
    assert "too few to verify a reordering of 5 %" in nothing["% of packets late up"].doubt


@pytest.mark.parametrize(
    ("done", "doubt"),
    [
        ("tc qdisc change dev $d parent 4c:2 netem duplicate 0%", "up 0 % duplicated (0 of"),
        ("tc qdisc change dev $d parent 4c:2 netem delay 10ms reorder 60%", "% late ("),
        ("tc qdisc delete dev $d root", "up the rule that duplicates packets was removed"),
    ],
)
def test_a_guest_that_was_changed_behind_the_labs_back_is_seen(pair, link, done, doubt):
    """Sabotage: another share, or none; during a load nothing is then proved."""
    put(link, ASKED)
    device = "d=$(ip -o route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/'); "
    pair.node("node1").run("guest", "bash", "-c", device + done)
    with closing(RoundTrip(link)) as probe:
        said, proved = realised(ASKED, probe, probe.typical() or 0)

    assert not proved and doubt in said, said


def test_a_machine_that_was_restarted_has_its_own_queue_again(pair, link):
    """As a proxy that is restarted: the link no longer has the effect, and does not say so."""
    put(link, ASKED)
    pair.node("node2").kill()
    pair.refresh()
    assert {each.stream for each in link.toxics()} == {"upstream"}
    pair.node("node2").start_again()
    drbd.peers(pair)["node2"].wait_until_answers()
    drbd.wait_until_whole(pair)

    assert {each.stream for each in pair.link(LINK).toxics()} == {"upstream"}
