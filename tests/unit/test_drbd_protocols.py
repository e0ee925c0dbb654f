"""Does drbd_protocols see who waits for the peer, and doubt machines that spoke otherwise?"""

import pytest

from harness import experiments
from harness.claim import Verdict

KNOWN = experiments.load("drbd_protocols")


def verdicts(summary):
    return {claim.id: claim.verdict for claim in summary.claims}


def test_the_law_holds_in_the_model(ran):
    """B and C wait one round trip, A waits for nobody."""
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
    """The protocol is taken, and not acted on."""
    lab.resource.deaf = True


def part(lab, _load):
    """The machines part in the middle of the load."""
    lab.resource.connected = False


@pytest.mark.parametrize(("trouble", "case"), [(grow_deaf, "a-85"), (part, "c-85")])
def test_another_protocol_is_never_judged(ran, trouble, case):
    """UNKNOWN, with the one that was spoken."""
    _, record, _ = ran(KNOWN, preset="quick", meanwhile=trouble)

    assert "both machines speak the protocol of the case" in " ".join(
        record.doubts("mariadb", record.of("mariadb", case))
    )
