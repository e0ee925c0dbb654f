"""What a replicated disk loses with its primary's site, by protocol and by the length of the link."""

import pytest
from replication_lab import replication
from replication_lab.experiments import load
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import up
from replication_lab.world import catalogue, clock
from replication_lab.world.machines import drbd

from tests.lab.machines import texts, two_machines, writers

pytestmark = pytest.mark.long

# FaultSchedule shorter than what it takes to miss a silent peer: until then the primary has not gone on alone.
ANSWERED_SECONDS, SILENT_SECONDS = 0.3, 0.5
# Those of the experiment drbd_protocols.
PLACES = tuple(dict.fromkeys(toxic.name for case in load("drbd_protocols").cases for toxic in case.toxics.values()))


@pytest.fixture(scope="module")
def pair(docker):
    with two_machines() as lab:
        yield lab


def lost_with_the_site(lab, protocol, place):
    """Darken the primary's site and kill it under load; return the acknowledged rows that the survivor lacks."""
    proofs = up.set_toxics(lab, {link.name: place for link in lab.topology.links})
    assert all(proof.ok for proof in proofs), proofs
    dying = drbd.primary(lab)
    survivor = drbd.other(lab, dying.node)
    for peer in (dying, survivor):
        peer.tell("options", "net", f"--protocol={protocol}")
    assert survivor.status().protocol == protocol
    with writers(lab, dying.node) as acknowledged:
        go_dark(lab)
        # What was under way is answered, across the longest link as well.
        clock.pause(ANSWERED_SECONDS)
        in_the_dark = len(acknowledged)
        clock.pause(SILENT_SECONDS)
        # While the site is dark only a primary that does not wait for its peer acknowledges a commit.
        assert (len(acknowledged) > in_the_dark) is (protocol == "A")
        lab.node(dying.node).kill()
        lab.refresh()
        replication.of(lab).take_over(survivor.node)
    for link in lab.topology.links:
        clear(lab.link(link.name))
    found = texts(lab, survivor.node)
    survivor.tell("adjust")
    lab.node(dying.node).start_again()
    replication.of(lab).online(dying.node)
    return len(set(acknowledged) - found)


def go_dark(lab):
    for link in lab.topology.links:
        for body in catalogue.toxic("black-hole").bodies:
            lab.link(link.name).add(body)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("protocol", ["C", "B"])
def test_what_the_peer_had_to_confirm_survives_the_primarys_site(pair, protocol, place):
    """On its disk (C) or in its memory (B): every acknowledged row is there, however long the link is."""
    assert lost_with_the_site(pair, protocol, place) == 0


@pytest.mark.parametrize("place", PLACES)
def test_what_was_only_sent_is_lost_with_the_primarys_site(pair, place):
    """Protocol A answers when a write is on its way."""
    assert lost_with_the_site(pair, "A", place) > 0
