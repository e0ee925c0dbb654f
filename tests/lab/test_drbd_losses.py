"""What a replicated disk loses when more than one machine dies: by protocol, and with disks that lose their caches."""

import pytest

from harness import labs, replicated
from harness.errors import LabError
from harness.experiments import drbd_protocols
from harness.faults.toxic import clear
from harness.world import catalogue, clock, drbd

from .machines import texts, two_machines, writers

pytestmark = pytest.mark.usefixtures("patient")

# Together shorter than what it takes to miss a silent peer: until then the primary has not gone on alone.
ANSWERED_SECONDS, SILENT_SECONDS = 0.3, 0.5
# Those of the experiment drbd_protocols.
PLACES = tuple(drbd_protocols.PLACES.values())
# Hundreds of commits; a disk that is flushed at all is flushed meanwhile.
UNFLUSHED_SECONDS = 10


@pytest.fixture(scope="module")
def pair(docker):
    with two_machines() as lab:
        yield lab


@pytest.fixture
def mortal(docker):
    """Machines for one test, which may leave a disk that nobody can use."""
    with two_machines() as lab:
        yield lab


def lost_with_the_site(lab, protocol, place):
    """The primary's site goes dark and then dies under load: acknowledged rows that the survivor has not."""
    proofs = [labs.set_toxic(lab, link.name, place) for link in lab.topology.links]
    assert all(proof.ok for proof in proofs), proofs
    dying = drbd.primary(lab)
    survivor = replicated.other(lab, dying.node)
    for peer in (dying, survivor):
        peer.tell("options", "net", f"--protocol={protocol}")
    assert survivor.status().protocol == protocol
    with writers(lab, dying.node) as acknowledged:
        go_dark(lab)
        # What was under way is answered, across the longest link as well.
        clock.pause(ANSWERED_SECONDS)
        in_the_dark = len(acknowledged)
        clock.pause(SILENT_SECONDS)
        # Nobody is answered in the dark, but by a primary that does not wait.
        assert (len(acknowledged) > in_the_dark) is (protocol == "A")
        lab.kill(dying.node)
        lab.refresh()
        replicated.promote(lab, survivor.node)
    for link in lab.topology.links:
        clear(lab.wire(link.name))
    found = texts(lab, survivor.node)
    survivor.tell("adjust")
    lab.start_again(dying.node)
    replicated.online(lab, dying.node)
    return len(set(acknowledged) - found)


def go_dark(lab):
    for link in lab.topology.links:
        for body in catalogue.toxic("black-hole").bodies:
            lab.wire(link.name).add(body)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("protocol", ["C", "B"])
def test_what_the_peer_had_to_confirm_survives_the_primarys_site(pair, protocol, place):
    """On its disk (C) or in its memory (B): whoever was answered finds the row, however long the link is."""
    assert lost_with_the_site(pair, protocol, place) == 0


@pytest.mark.parametrize("place", PLACES)
def test_what_was_only_sent_is_lost_with_the_primarys_site(pair, place):
    """Protocol A answers when a write is on its way."""
    assert lost_with_the_site(pair, "A", place) > 0


def lost_with_all_power(lab, *options):
    """Both machines and both disks lose power under load, and the primary never comes back: acknowledged rows lost,
    of those that were acknowledged before the survivor's disk was flushed for the last time.

    Protocol C acknowledges what the peer has written; it flushes afterwards, when an epoch ends. So the last moment's
    rows may be in its cache only. The file system does not flush by itself here, so that flushing is DRBD's.
    None where the survivor's server cannot even start.
    """
    serving = drbd.primary(lab)
    survivor = replicated.other(lab, serving.node)
    lab.run(serving.node, "guest", "mount", "-o", "remount,barrier=0", "/var/lib/mysql")
    for peer in (serving, survivor):
        if options:
            peer.tell("options", "disk", *options)
    with writers(lab, serving.node) as acknowledged:
        before = list(acknowledged)
        flushed = flushes_again(survivor.disk)
        # In this order nobody is answered after the survivor's disk is gone.
        lab.kill(serving.node)
        survivor.disk.power_cut()
        lab.kill(survivor.node)
    assert flushed is not bool(options)
    survivor.disk.container.start()
    clock.wait_until(lambda: lab.is_healthy(f"{survivor.node}-disk1"), "the survivor's disk")
    lab.start_again(survivor.node)
    again = drbd.Peer(lab, survivor.node)
    again.wait_until_answers()
    try:
        replicated.promote(lab, survivor.node)
    except LabError:
        # The disk is promoted; what is on it is of no use, and no server runs that were only slow.
        if not again.status().primary or server_runs(lab, survivor.node):
            raise
        return None
    return len(set(before) - texts(lab, survivor.node))


def server_runs(lab, node):
    try:
        lab.run(node, "guest", "server", "status")
    except LabError:
        return False
    return True


def flushes_again(disk):
    """Whether the disk was flushed from now on: the second flush begins later."""
    now = disk.stats().flushes
    try:
        clock.wait_until(lambda: disk.stats().flushes >= now + 2, "two more flushes", UNFLUSHED_SECONDS)
    except LabError:
        return False
    return True


def test_a_peer_that_flushes_keeps_what_was_acknowledged_before_it_did_when_all_power_is_cut(mortal):
    """Each epoch that had ended was on the peer's disk, whatever its cache."""
    assert lost_with_all_power(mortal) == 0


def test_disk_flushes_no_loses_acknowledged_rows_when_all_power_is_cut(mortal):
    """What makes it fast is what makes it dangerous without a battery."""
    assert lost_with_all_power(mortal, "--disk-flushes=no") != 0
