"""Does what a witness saw prove an obligation for a span of time?"""

import pytest
from replication_lab.model.core.observation import Happened, Observation, unproved
from replication_lab.model.core.proof import Proof

DARK = "the link is dark"
SPAN = (0.0, 10.0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "not verified: the link is dark: no witness observed it"),
        ([Observation(DARK, 3.0, 10.0)], "observed from 3.0 to 10.0 s, not from 0.0 to 10.0 s"),
        ([Observation(DARK, -1.0, 8.0)], "observed from -1.0 to 8.0 s"),
        ([Observation(DARK, -1.0, 11.0, gap_s=3.4)], "3.4 s without an observation"),
        (
            [Observation(DARK, -1.0, 11.0, contrary=[Happened(4.2, "it answered")])],
            "the link is dark: at 4.2 s it answered",
        ),
    ],
    ids=["none", "late", "ended early", "gap", "contrary"],
)
def test_an_obligation_without_evidence_for_its_whole_time_is_a_doubt(given, why):
    """With what lacks, and when."""
    (doubt,) = unproved([DARK], given, SPAN)

    assert why in doubt


def test_an_obligation_observed_all_through_is_proved():
    """Also one that nobody asked for; half a second at either end is how long it takes to ask."""
    assert unproved([DARK], [Observation(DARK, 0.4, 9.6, gap_s=0.6)], SPAN) == []
    assert Observation(DARK, 0.0, 10.0).proof(SPAN).ok


@pytest.mark.parametrize(
    "seen", [Observation(DARK, 3.0, 10.0), Observation(DARK, 0.0, 8.0), Observation(DARK, 0.0, 10.0, gap_s=3.4)]
)
def test_a_witness_that_only_missed_a_time_may_have_been_slowed_by_the_machine(seen):
    """The measurement is repeated then."""
    proof = seen.proof(SPAN)

    assert (proof.ok, proof.slow) == (False, True)
    assert not proof.found.startswith("not verified")


@pytest.mark.parametrize("gap_s", [0.0, 3.4])
def test_what_a_witness_saw_is_never_taken_for_a_slow_moment(gap_s):
    """Also if it missed another time."""
    seen = Observation(DARK, 0.0, 10.0, gap_s=gap_s, contrary=[Happened(4.2, "it answered")])

    assert seen.proof(SPAN) == Proof(DARK, "at 4.2 s it answered", ok=False)
    assert unproved([DARK], [seen], SPAN) == ["the link is dark: at 4.2 s it answered"]


def test_what_happened_is_told_with_its_times_and_not_all_of_it():
    """A link that changes a hundred times makes no sentence of a hundred parts."""
    contrary = [Happened(float(second), "it answered") for second in range(9)]
    proof = Observation(DARK, 0.0, 10.0, contrary=contrary).proof(SPAN)

    assert not proof.ok
    assert proof.found == "at 0.0 s it answered; at 1.0 s it answered; at 2.0 s it answered; and 6 times more"
