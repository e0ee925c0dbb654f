"""Is a claim given up as soon as the planned rounds cannot decide it, and not before?"""

import math

import pytest
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.statistics import Plan
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.claim import judge
from replication_lab.model.experiment.quantities import Figure, Total
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record

from tests.unit.synthetic import claim, run

PLAN = Plan(3, 8)
NEVER_LOST = Total("none", "lost").is_zero(trials="trials", at_least=30)
FAST = Figure("none", "rate") >= 100


def judged(relation, rounds, plan=PLAN):
    """Judge a relation on these measurements, one a round."""
    taken = [Measurement(engine="mariadb", round=n, case="none", **parts) for n, parts in enumerate(rounds, start=1)]
    return judge(claim(relation), Record([run(), *taken]), "mariadb", plan)


def trials(*numbers):
    return [{"figures": {"lost": 0, "trials": number}} for number in numbers]


def rates(*values):
    """Return rounds with these rates; None for a noisy one."""
    quiet = Noise(foreign_cpu=0.0, steal=0.0)
    noisy = Noise(quiet=False)
    return [{"figures": {"rate": value or 0.0}, "noise": quiet if value else noisy} for value in values]


@pytest.mark.parametrize(
    ("made", "settled", "needed"),
    [
        # Sixteen by the last round, and 32 if there were twice as many.
        ((2, 2, 2, 2), False, "about 15 rounds"),
        ((1, 1, 1, 1), True, "about 30 rounds"),
        ((1, 1, 1), False, "about 30 rounds"),
        ((0, 0, 0, 0), True, ""),
    ],
)
def test_a_claim_of_never_with_too_few_trials_is_given_up(made, settled, needed):
    """After four rounds, if even twice as many trials a round were too few; it says how many rounds it would take."""
    found = judged(NEVER_LOST, trials(*made))

    assert (found.verdict, found.settled) == (Verdict.UNKNOWN, settled)
    assert needed in found.reason and ("rounds" in found.reason) == bool(needed)


def test_a_figure_that_failed_in_one_round_settles_a_claim():
    """No later round brings it back."""
    assert judged(FAST, rates(120, math.nan)).settled
    assert not judged(FAST, rates(120, 121)).settled


def test_too_few_rounds_that_may_be_quiet_settle_a_claim():
    """Seven of eight rounds are over: at most two can be quiet, and three are needed."""
    assert judged(FAST, rates(120, None, None, None, None, None, None)).settled
    assert not judged(FAST, rates(120, None, None, None, None, None)).settled


def test_enough_trials_decide():
    """The counter-check."""
    assert judged(NEVER_LOST, trials(10, 10, 10)).verdict is Verdict.HOLDS
