"""Does drbd_protocols measure the wait for the peer, and doubt machines that used another protocol?"""

from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab.model.core.verdict import Verdict

PUBLISHED = experiments.load("drbd_protocols")
# Loads of a quarter second: a few commits over the longest link, and hundreds over the shortest.
QUICK = replace(PUBLISHED.preset("quick"), sizes={"seconds": 0.25})
KNOWN = replace(PUBLISHED, presets={"quick": QUICK})


def verdicts(summary):
    return {claim.id: claim.verdict for claim in summary.claims}


def test_the_law_holds_in_the_model(ran):
    """B and C wait one round trip, A waits for no answer."""
    summary, _, _ = ran(KNOWN, preset="quick")

    assert {Verdict.HOLDS} == set(verdicts(summary).values()), [claim.reason for claim in summary.claims]
    row = next(case for case in summary.cases if case.name == "c-85").figures["throughput"]
    assert row.predicted == pytest.approx(row.value, rel=0.05)


def test_machines_speak_the_files_protocol_afterwards(ran):
    """Whatever the last case was."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))

    assert labs[-1].resource.options == {"node1": set(), "node2": set()}


# --- sabotage ---------------------------------------------------------------------------------------------------------


def grow_deaf(lab, _load):
    """Accept the protocol without acting on it."""
    lab.resource.deaf = True


def part(lab, _load):
    """Disconnect the machines in the middle of the load."""
    lab.resource.connected = False


def part_and_meet(lab, _load):
    """Disconnect the machines in the middle of the load, and make them equal again before its end."""
    lab.resource.told("node2", "disconnect")
    lab.resource.told("node2", "connect")


def speed_up(lab, _load):
    """Remove a disk's limits in the middle of the load."""
    lab.resource.disks["node2"].exec_run(["spindle", "set", "write_us=0"])


FAST = "no other command changed the disk of node2"
PROTOCOL, PARTED = "both machines use the protocol of the case", "the connection changed meanwhile"


@pytest.mark.parametrize(
    ("trouble", "case", "reason"),
    [(grow_deaf, "a-85", PROTOCOL), (part, "c-85", PROTOCOL), (part_and_meet, "a-85", PARTED), (speed_up, "c-0", FAST)],
)
def test_a_load_without_its_peer_its_protocol_or_its_disks_is_never_judged(ran, trouble, case, reason):
    """UNKNOWN, with what there was instead."""
    _, record, _ = ran(KNOWN, preset="quick", meanwhile=trouble)

    assert reason in " ".join(record.doubts("mariadb", record.of("mariadb", case)))
