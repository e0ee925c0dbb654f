"""Does an interval mean what it says, also after many looks?"""

import math
import subprocess
import sys

import numpy as np
import pytest
from replication_lab.model.core import statistics
from replication_lab.model.core.statistics import (
    Interval,
    NoInterval,
    Plan,
    highest_share,
    interval_between_at_equal,
    interval_of_mean,
    interval_of_ratio,
    risk_of_a_look,
)
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.claim import Claim, judge
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record
from scipy.special import bdtrc

from tests.records import correlation
from tests.unit import simulation

# Each property is that of thousands of simulated runs.
pytestmark = pytest.mark.whole

PLANS = (Plan(3, 8), Plan(3, 12))
RUNS = 4_000


def at_most(share: float, limit: float) -> bool:
    """Return whether RUNS simulated runs with this share are compatible with a true share of at most `limit`."""
    # The p-value of the one-sided binomial test.
    return bdtrc(round(share * RUNS) - 1, RUNS, limit) > 0.001


@pytest.mark.parametrize("plan", PLANS, ids=("8 rounds", "12 rounds"))
@pytest.mark.parametrize("shape", simulation.SHAPES)
def test_wrong_verdicts_at_the_boundary_stay_within_five_per_cent(shape, plan):
    """A claim that is exactly on its boundary HOLDS in at most 5 % of the runs, and is REFUTED in at most 5 %."""
    outcome = simulation.run(shape, plan, ratio=0.9, bound=0.9, runs=RUNS)

    assert at_most(outcome.holds, plan.alpha)
    assert at_most(outcome.refuted, plan.alpha)


def test_a_time_in_loops_is_decided_more_often_than_in_milliseconds_on_uneven_cpus():
    """The true ratio is 1.2 and the bound 1; the CPUs' speed gives each time a standard deviation of 16 %."""
    times, loops = (
        simulation.run(f"CPUs of uneven speed, {unit}", Plan(3, 8), ratio=1.2, bound=1, runs=RUNS)
        for unit in ("times", "loops")
    )

    assert loops.holds > 2 * times.holds


def test_a_slope_from_few_cases_would_make_too_many_verdicts_wrong():
    """That is why a time is divided by its loop, and not corrected by what the record says of loops."""
    assert not at_most(simulation.wrong_with_a_slope(2, Plan(3, 8), runs=RUNS), Plan(3, 8).alpha)


@pytest.mark.parametrize("plan", PLANS, ids=("8 rounds", "12 rounds"))
@pytest.mark.parametrize("shape", simulation.SHAPES)
def test_an_interval_that_is_the_answer_is_wrong_in_five_per_cent_of_the_runs_at_most(shape, plan):
    """At the level of an estimate, both sides of the interval together miss the truth at any look in at most 5 %."""
    outcome = simulation.run(shape, plan, ratio=0.9, bound=0.9, runs=RUNS, level=plan.level_of_estimate, gives_up=False)

    assert at_most(outcome.holds + outcome.refuted, plan.alpha)


@pytest.mark.parametrize("shape", simulation.SHAPES)
@pytest.mark.parametrize(("ratio", "wrong"), [(0.895, "holds"), (0.905, "refuted")])
def test_wrong_verdicts_beside_the_boundary_stay_within_five_per_cent(shape, ratio, wrong):
    """A claim that is just false HOLDS, and one that is just true is REFUTED, in at most 5 % of the runs."""
    outcome = simulation.run(shape, PLANS[0], ratio=ratio, bound=0.9, runs=RUNS)

    assert at_most(getattr(outcome, wrong), PLANS[0].alpha)


@pytest.mark.parametrize("correlated", [each for each in simulation.CORRELATED if each <= 0])
def test_rounds_that_differ_from_the_one_before_make_no_more_verdicts_wrong(correlated):
    """Their mean varies less than the spread of the rounds says."""
    outcome = simulation.run(correlated, PLANS[0], ratio=0.9, bound=0.9, runs=RUNS)

    assert at_most(outcome.holds, PLANS[0].alpha) and at_most(outcome.refuted, PLANS[0].alpha)


def test_rounds_that_resemble_the_one_before_are_caught_by_the_simulation():
    """At a correlation of 0.3 verdicts are wrong twice as often as stated."""
    outcome = simulation.run(0.3, PLANS[0], ratio=0.9, bound=0.9, runs=RUNS)

    assert not at_most(outcome.holds, PLANS[0].alpha) and not at_most(outcome.refuted, PLANS[0].alpha)


@pytest.mark.parametrize("truth", [-0.3, 0.0, 0.3])
def test_the_correlation_of_short_series_is_found_when_they_are_pooled(truth):
    """Twelve records of six series each, as long as the kept ones; each series alone is biased towards -1/n."""
    dice = np.random.default_rng(2)
    lengths = (4, 4, 5, 5, 6, 8)
    records = {
        str(number): [simulation.autoregressive(dice, (1, length), truth)[0] for length in lengths]
        for number in range(12)
    }
    found = correlation.pooled(records)

    assert found.low < truth < found.high
    assert abs(found.correlation - truth) < 0.2


@pytest.mark.parametrize("plan", PLANS, ids=("8 rounds", "12 rounds"))
def test_unpaid_looks_are_caught_by_the_simulation(plan):
    """The simulation can fail: with 5 % on a side at every look, each verdict is wrong far more often than 5 %."""
    outcome = simulation.run("lognormal 5 %", plan, ratio=0.9, bound=0.9, runs=RUNS, level=0.9)

    assert not at_most(outcome.holds, plan.alpha)
    assert not at_most(outcome.refuted, plan.alpha)


def test_a_percentile_bootstrap_is_caught_by_the_simulation():
    """Resampling three values gives intervals so narrow that wrong verdicts exceed 5 %, in spite of the correction."""
    outcome = simulation.run(
        "lognormal 5 %", Plan(3, 4), ratio=0.9, bound=0.9, runs=400, interval=simulation.bootstrap("percentile")
    )

    assert outcome.holds + outcome.refuted > 0.2


@pytest.mark.parametrize(
    ("shape", "ratio", "rounds"),
    [
        ("lognormal 1 %", 1.1, 3.7),
        ("lognormal 5 %", 1.5, 4),
        ("lognormal 15 %", 2.5, 5),
        ("slow rounds ×1.5 (p=0.1), both cases", 2, 4.5),
        ("heavy tails (t, 3 df) of 3 %", 1.5, 4),
    ],
)
def test_clear_cases_are_decided_quickly(shape, ratio, rounds):
    """Far from the boundary nearly every run of at most 8 rounds decides, most of them after three to five."""
    outcome = simulation.run(shape, PLANS[0], ratio=0.9 * ratio, bound=0.9, runs=RUNS)

    assert outcome.holds > 0.97
    assert outcome.rounds < rounds


def test_the_simulation_decides_as_the_judge_does():
    """A simulated run's end is the verdict of the very relation that claims are made of."""
    plan, shape = Plan(3, 6), "lognormal 5 %"
    ratios = 0.95 * np.exp(simulation.SHAPES[shape](np.random.default_rng(1), (40, 6)))

    verdicts = [_sequential_verdict(row, plan) for row in ratios]
    outcome = simulation.run(shape, plan, ratio=0.95, bound=0.9, runs=40)

    assert (outcome.holds, outcome.refuted) == tuple(
        verdicts.count(kind) / 40 for kind in (Verdict.HOLDS, Verdict.REFUTED)
    )


def _sequential_verdict(ratios, plan: Plan) -> Verdict:
    for rounds in range(plan.min_rounds, plan.max_rounds + 1):
        finding = _decided(ratios[:rounds], plan)
        if finding.given_up or finding.verdict is not Verdict.UNKNOWN:
            break
    return finding.verdict


def _decided(ratios, plan: Plan) -> ClaimJudgement:
    taken = [
        Measurement(engine="e", round=n, case=case, figures={"throughput": rate})
        for n, ratio in enumerate(ratios)
        for case, rate in (("a", ratio), ("b", 1.0))
    ]
    claim = Claim("kept", "The throughput is kept.", throughput("a") / throughput("b") >= 0.9)
    return judge(claim, Record(taken), "e", plan)


def test_the_ratio_is_that_of_the_pairs_whatever_they_share():
    """A drift that both sides of every pair share leaves the interval unchanged."""
    pairs = [(0.9, 1.0), (0.92, 1.0), (0.91, 1.0)]
    slowed = [(over / n, under / n) for n, (over, under) in enumerate(pairs, start=1)]

    plain, drifted = interval_of_ratio(pairs, 0.95), interval_of_ratio(slowed, 0.95)

    assert (drifted.low, drifted.high) == pytest.approx((plain.low, plain.high))
    assert plain.low < 0.91 < plain.high


def test_the_mean_has_the_textbook_interval():
    """Of 1, 2, 3 the mean is 2 and the 95 % interval 2 ± 4.303 · 1/√3."""
    interval = interval_of_mean([1, 2, 3], 0.95)

    assert (interval.low, interval.estimate, interval.high) == pytest.approx((-0.4841, 2, 4.4841), abs=1e-4)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([5.0, 5.0, 5.0], "exactly the same"),
        ([0.1 + 0.2, 0.3], "exactly the same"),
        ([1.0], "at least 2"),
        ([], "at least 2"),
        ([1.0, math.nan], "could not be computed"),
        ([1.0, math.inf], "could not be computed"),
    ],
)
def test_figures_without_an_interval_are_refused_with_the_reason(values, reason):
    """Equal, too few and non-finite figures give no interval, least of all one of zero width."""
    with pytest.raises(NoInterval, match=reason):
        interval_of_mean(values, 0.95)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_ratios_of_what_is_not_positive_are_refused(pair):
    """A zero, negative or missing side has no ratio."""
    with pytest.raises(NoInterval, match="two positive figures"):
        interval_of_ratio([(1.0, 2.0), pair], 0.95)


def test_a_failed_computation_is_never_an_interval():
    """An interval with a bound that is not finite cannot exist."""
    with pytest.raises(NoInterval, match="not an interval"):
        Interval(1.0, math.nan, 2.0, 3, 0.95)


def test_a_ratio_at_an_equal_covariate_is_covered_in_nineteen_of_twenty_cases():
    """Twelve rounds a side; the covariate differs between the sides, and has its share in the values."""
    dice, covered = np.random.default_rng(3), 0
    for _ in range(RUNS):
        beside = [np.exp(dice.normal(shift, 0.2, 12)) for shift in (0, 0.3)]
        before, after = (
            level / side**1.2 * np.exp(dice.normal(0, 0.05, 12)) for level, side in zip((1, 0.8), beside, strict=True)
        )
        found = interval_between_at_equal(before.tolist(), after.tolist(), tuple(map(list, beside)), 0.95)
        covered += found.low <= 0.8 <= found.high

    assert 0.94 <= covered / RUNS <= 0.96


@pytest.mark.parametrize(
    ("before", "after", "beside", "said"),
    [
        ([1, 2], [3], ([1, 2], [3]), "four positive values"),
        ([1, 2, 3, 4], [], ([1, 2, 3, 4], []), "some on each side"),
        ([1, 2, -3], [1, 2, 3], ([1, 2, 3], [1, 2, 3]), "positive"),
        ([1, 2, 3], [1, 2, 3], ([1, 1, 1], [2, 2, 2]), "does not vary within a side"),
        ([1, 2, 3], [2, 4, 6], ([1, 2, 3], [1, 2, 3]), "the spread is unknown"),
    ],
)
def test_a_ratio_that_no_covariate_tells_is_refused_with_the_reason(before, after, beside, said):
    """Nothing is guessed where least squares have no answer."""
    with pytest.raises(NoInterval, match=said):
        interval_between_at_equal(before, after, beside, 0.95)


@pytest.mark.parametrize("rounds", [(1, 8), (5, 4), (0, 0)])
def test_plans_that_can_decide_nothing_are_refused(rounds):
    """A plan needs two rounds at least, and no fewer at most than at least."""
    with pytest.raises(ValueError, match="min_rounds"):
        Plan(*rounds)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_a_risk_is_a_probability(alpha):
    """The accepted risk lies between 0 and 1."""
    with pytest.raises(ValueError, match="alpha"):
        Plan(3, 8, alpha)


def test_every_planned_look_is_paid_for():
    """More looks leave less risk for each; a single one takes all of it, on each side."""
    levels = [Plan(3, most).level for most in (3, 4, 8, 12, 40)]

    assert levels[0] == 1 - 2 * 0.05
    assert levels == sorted(levels)
    assert 1 - 2 * 0.05 < Plan(3, 4).level < 1 - 2 * 0.05 / 2


def test_a_look_takes_the_risk_that_the_simulation_of_other_paths_gives():
    """Rounds 3 to 8: 1.6 % a look on each side, from 20 000 paths of another program; and no more than 5 % in all."""
    risk = risk_of_a_look(3, 8, 0.05)

    assert risk == pytest.approx(0.0159, abs=0.0005)


def test_an_undecidable_claim_is_given_up_early_and_says_what_it_would_take():
    """At 15 % of noise a bound 2 % away is out of reach of 8 rounds: the fourth round shows it."""
    outcome = simulation.run("lognormal 15 %", Plan(3, 8), ratio=0.918, bound=0.9, runs=RUNS)
    finding = _decided([1.1, 0.8, 1.05, 0.9], Plan(3, 8))

    assert outcome.rounds < 5
    assert (finding.verdict, finding.given_up) == (Verdict.UNKNOWN, True)
    assert finding.rounds_needed > 8
    assert "at this spread it would take about 31 rounds" in finding.reason


def test_a_claim_is_not_given_up_by_three_rounds():
    """A spread of three values says too little."""
    finding = _decided([1.1, 0.8, 1.05], Plan(3, 8))

    assert (finding.verdict, finding.given_up) == (Verdict.UNKNOWN, False)


def test_giving_up_costs_few_decisions():
    """×1.1 at 5 % of noise: 85 % at least are decided all the same, in 5.5 rounds at most."""
    outcome = simulation.run("lognormal 5 %", Plan(3, 8), ratio=0.99, bound=0.9, runs=RUNS)

    assert outcome.holds > 0.85
    assert outcome.rounds < 5.5


def test_the_rounds_that_it_would_take_decide_at_the_same_spread():
    """With so many rounds of the same figures the interval no longer holds the bound; with half as many it does."""
    ratios = [1.1, 0.8, 1.05, 0.9]
    interval = interval_of_ratio([(ratio, 1.0) for ratio in ratios], 0.968)
    needed = interval.rounds_until(interval.distance(0.9))

    assert interval.half_after(needed) <= interval.distance(0.9) < interval.half_after(needed // 2)


def test_none_in_thirty_leaves_room_for_ten_per_cent():
    """Nothing seen in 30 trials is still compatible with 9.5 %: the share p for which (1-p)^30 is 5 %."""
    assert highest_share(30) == pytest.approx(1 - 0.05 ** (1 / 30), abs=1e-6)


@pytest.mark.parametrize(
    ("times", "values", "why"),
    [([1, 2], [1, 2], "at least 5"), ([3] * 5, [1, 2, 3, 4, 5], "same moment"), ([1, 1, 2, 2, 3], [4] * 5, "the same")],
)
def test_readings_without_a_slope_say_why(times, values, why):
    """Too few, at one moment, or too often the same."""
    with pytest.raises(NoInterval, match=why):
        statistics.slope(times, values)


def test_scipy_is_loaded_only_to_judge():
    """Importing the nouns loads neither scipy nor numpy, so commands that judge nothing start fast."""
    code = (
        "import sys, replication_lab.model.experiment.experiment, replication_lab.report\n"
        "print({'scipy', 'numpy'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root())

    assert told.stdout.strip() == "set()"


def _root():
    return statistics.__file__.rsplit("/harness/", 1)[0]
