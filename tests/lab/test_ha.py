"""Two machines under a cluster manager: service moves with its address, and whatever is cut, one serves at a time."""

import json
from contextlib import suppress

import pytest
from replication_lab import replication
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.replication.pacemaker import ManagedMachines
from replication_lab.world import clock
from replication_lab.world.machines import drbd
from replication_lab.world.machines.pacemaker import PacemakerCluster

from tests.lab.machines import texts, two_machines, write, writers

DATA, RING, ARBITER = "node1-node2", "node1-node2-ring", "{}-arbiter"


@pytest.fixture(scope="module")
def pair(docker):
    """Start both machines and prove them, with the service on one of them."""
    with two_machines("drbd-ha") as lab:
        yield lab


@pytest.fixture
def whole(pair, request):
    """Yield the cluster healthy before a test and after it; both disks equal, after one of the longer tests."""
    ManagedMachines(pair).wait_until_whole()
    yield pair
    for link in pair.topology.links:
        pair.link(link.name).enable()
        clear(pair.link(link.name))
    for node in pair.topology.nodes:
        if pair.node(node.name).state()[0] == "exited":
            pair.node(node.name).start_again()
    for name, member in PacemakerCluster(pair).status().members.items():
        if member.standby:
            PacemakerCluster(pair).tell("online", name)
    ManagedMachines(pair).wait_until_whole()
    if request.node.get_closest_marker("long"):
        assert drbd.verify(pair) == 0


def serving(lab):
    return PacemakerCluster(lab).status().serving


def other(lab, node):
    return drbd.other(lab, node).node


def cut(lab, *links):
    for link in links:
        lab.link(link).cut()


def no_split_brain(lab):
    """Return whether neither machine has ever seen its peer write independently."""
    said = [lab.node(node.name).run("guest", "dmesg") for node in lab.topology.nodes]
    return not any("Split-Brain detected" in words for words in said)


def test_the_watchdogs_are_fed_while_the_cluster_finds_itself(whole):
    """Without that they would reset a machine after a slow start, and its peer after it."""
    said = [whole.node(node.name).run("guest", "cat", "/run/lab/messages") for node in whole.topology.nodes]

    assert all("Servant pcmk is healthy" in messages for messages in said)
    assert not any("No liveness" in messages for messages in said)


def test_the_cluster_says_who_is_in_it_and_whom_its_address_leads_to(whole, command):
    """As text, as data, and in the lab's own tree."""
    (seen,) = json.loads(command("status", "--lab", whole.name, "--json").stdout)
    shown = " ".join(command("status", "--lab", whole.name).stdout.split())

    assert {"fs_mysql", "p_ip_mysql", "mysqld", "p_drbd_mysql", "p_ping"} == {
        each["name"] for each in seen["nodes"][0]["details"]["cluster"]["resources"]
    }
    assert serving(whole) and seen["service"].endswith(f" is on {serving(whole)}") and seen["service"] in shown
    assert "ms_drbd_mysql Promoted" in shown
    assert "quorum: node1 online" in shown and "link node1-node2-ring" in shown


@pytest.mark.long
def test_standby_moves_the_service_with_its_address_and_online_takes_the_machine_back(whole, command):
    """Clients find every row at the same address on the other machine; what was written meanwhile is copied back."""
    first = serving(whole)
    second, address = other(whole, first), PacemakerCluster(whole).address()
    write(whole, first)
    before = texts(whole, first)
    moved = command("standby", first, "--lab", whole.name, "--json")

    assert moved.returncode == 0, moved.stderr
    assert json.loads(moved.stdout)["seconds"] > 0
    assert (second, address) == (PacemakerCluster(whole).server(), PacemakerCluster(whole).address())
    assert before == texts(whole, second)
    write(whole, second)
    back = command("online", first, "--lab", whole.name)
    assert back.returncode == 0, back.stderr
    assert drbd.Peer(whole, second).status().whole and second == serving(whole)


@pytest.mark.long
def test_a_killed_machine_loses_nothing_that_was_acknowledged(whole):
    """In the middle of a load: the peer serves at the same address with every row, and takes the dead machine back."""
    dying = serving(whole)
    survivor = other(whole, dying)
    with writers(whole, dying) as acknowledged:
        whole.node(dying).kill()
        whole.refresh()
        PacemakerCluster(whole).wait_until_served_by(survivor)

    assert set(acknowledged) <= texts(whole, survivor)
    whole.node(dying).start_again()
    ManagedMachines(whole).wait_until_whole()
    assert no_split_brain(whole)


@pytest.mark.long
def test_a_machine_that_is_cut_off_resets_itself_before_the_other_one_serves(whole):
    """Ring, data and arbiter out of reach: it answers no write, its watchdog resets it, and only the peer writes."""
    lost = serving(whole)
    survivor = other(whole, lost)
    with writers(whole, lost) as acknowledged:
        # The data last: else the cluster, while there is one, learns that the survivor's disk is out of date.
        cut(whole, RING, ARBITER.format(lost), DATA)
        PacemakerCluster(whole).wait_until_served_by(survivor)
        reset_at = len(acknowledged)
        assert whole.node(lost).state()[0] == "exited"

    assert reset_at == len(acknowledged)
    assert set(acknowledged) <= texts(whole, survivor)


@pytest.mark.long
def test_a_ring_that_is_cut_ends_one_machine_and_never_makes_two_primaries(whole):
    """Both reach the arbiter, which gives its vote to one of them; the disks go on being equal until then."""
    before = serving(whole)
    cut(whole, RING)
    winner = clock.wait_until(lambda: _alone(whole), "one machine to continue without its peer", every=0.5)
    ended = other(whole, winner)
    PacemakerCluster(whole).wait_until_served_by(winner)
    # The peer takes over only after the end of the former primary; a machine that always served takes over nothing.
    assert winner == before or whole.node(ended).state()[0] == "exited"
    write(whole, winner, 3)
    clock.wait_until(lambda: whole.node(ended).state()[0] == "exited", f"{ended} to be reset by its watchdog")
    whole.link(RING).enable()
    whole.node(ended).start_again()
    ManagedMachines(whole).wait_until_whole()
    assert no_split_brain(whole)


def _alone(lab):
    """Return the machine that reports a quorum without its peer; an empty string if neither does."""
    for node in lab.topology.nodes:
        with suppress(LabError):
            status = PacemakerCluster(lab).status(node.name)
            online = [name for name, member in status.members.items() if member.online]
            if status.quorum and online == [node.name]:
                return node.name
    return ""


def test_a_slow_ring_moves_nothing(whole):
    """200 ms are no silence: the same machine serves, and both are members."""
    before = serving(whole)
    (proof,) = up.set_toxics(whole, {RING: "wan-200ms"})
    clock.pause(6)
    status = PacemakerCluster(whole).status()

    assert proof.ok, proof
    assert before == status.serving and status.quorum
    assert all(member.online for member in status.members.values())


# Two emulated processors beside other tests are slower than a cluster's own time limits.
@pytest.mark.alone
@pytest.mark.long
def test_an_emulated_cluster_comes_up_and_moves_its_service(docker, monkeypatch):
    """Where a process takes ten times as long to start, so do agents, and no machine is given up or reset for it."""
    monkeypatch.setenv("LAB_VM", "tcg")
    with two_machines("drbd-ha") as lab:
        first = serving(lab)
        write(lab, first, 3)
        before = texts(lab, first)

        assert replication.of(lab).standby(first).seconds > 0
        assert before == texts(lab, other(lab, first))
        assert not any(lab.node(node.name).state()[0] == "exited" for node in lab.topology.nodes)


@pytest.mark.long
def test_a_primary_without_its_peers_disk_goes_on_and_forbids_it_to_be_promoted(whole):
    """Only the data's links are cut: the cluster knows which machine has outdated data, until it is resynced."""
    primary = serving(whole)
    cut(whole, DATA)
    clock.wait_until(lambda: drbd.Peer(whole, primary).status().connection != drbd.CONNECTED, "the cut to be noticed")
    write(whole, primary, 3)

    assert "fence-peer" in whole.node(primary).run("guest", "cibadmin", "--query", "--scope", "constraints")
    whole.link(DATA).enable()
    ManagedMachines(whole).wait_until_whole()
    clock.wait_until(
        lambda: "fence-peer" not in whole.node(primary).run("guest", "cibadmin", "--query", "--scope", "constraints"),
        "the ban to be lifted",
    )
    assert primary == serving(whole)
