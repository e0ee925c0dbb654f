"""Does a claim come to the right verdict, and to UNKNOWN whenever it should?"""

import math

import pytest
from msgspec import structs
from replication_lab.model.core.event import Doubt, End
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.statistics import Plan
from replication_lab.model.core.verdict import Expected, Verdict, exit_code
from replication_lab.model.experiment.claim import judge
from replication_lab.model.experiment.judgement import NotJudged
from replication_lab.model.experiment.quantities import Figure, PerRoundTrip, Sum, Total, rtt, throughput
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record

from tests.unit.synthetic import claim, experiment, lab, measurement, record, replaced, run, toxic

PLAN = Plan(3, 8)
AS_CLAIMED = Expected()
ASYNC = throughput("async-85ms") / throughput("none")
HOLDS, REFUTED, UNKNOWN = Verdict.HOLDS, Verdict.REFUTED, Verdict.UNKNOWN


def judged(relation, of=None, expected=AS_CLAIMED, **parts):
    return judge(claim(relation, **parts), of or record(4), "mariadb", PLAN, expected)


def counts(*pairs) -> Record:
    """Return a record of rounds with (seen, trials)."""
    return Record(
        [
            run(),
            *(
                Measurement(engine="mariadb", round=n, case="none", figures={"lost": s, "trials": t})
                for n, (s, t) in enumerate(pairs, start=1)
            ),
        ]
    )


@pytest.mark.parametrize(
    ("relation", "verdict"),
    [
        (ASYNC >= 0.7, HOLDS),
        (ASYNC >= 0.99, REFUTED),
        (ASYNC >= 0.895, UNKNOWN),
        (ASYNC <= 0.99, HOLDS),
        (ASYNC <= 0.7, REFUTED),
        (ASYNC.equals(within=0.2), HOLDS),
        (ASYNC.equals(within=0.02), REFUTED),
        (ASYNC.between(0.8, 1.0), HOLDS),
        (rtt("after-sync-85ms-1").between(84, 87), HOLDS),
        (rtt("after-sync-85ms-1").between(84, 85), REFUTED),
        (Figure("after-sync-85ms-1", "latency_min_ms") >= 80, HOLDS),
        ((throughput("after-commit-85ms-16") / PerRoundTrip("after-commit-85ms-16", 16)).equals(0.05), HOLDS),
    ],
)
def test_intervals_inside_hold_outside_refute_and_astride_decide_nothing(relation, verdict):
    """The verdict follows from where the interval lies."""
    assert judged(relation).verdict is verdict


def on(engine, case, *values) -> list[Measurement]:
    """Return measurements of a case on an engine, one a round."""
    return [
        Measurement(engine=engine, round=n, case=case, figures={"average_ms": value})
        for n, value in enumerate(values, start=1)
    ]


ACROSS = Figure("aria", "average_ms") / Figure("myisam", "average_ms", "mysql-5.5")
BESIDE = Record(
    [
        run(engines=["mariadb", "mysql-5.5"]),
        *on("mariadb", "aria", 30, 30.3, 29.7),
        *on("mysql-5.5", "myisam", 10, 10, 10),
    ]
)


def test_a_claim_may_compare_engines():
    """A figure that names an engine is read there, and paired by round."""
    assert ACROSS.series(BESIDE, "mariadb") == pytest.approx({1: 3.0, 2: 3.03, 3: 2.97})
    assert ACROSS.label == "average_ms(aria) / average_ms(myisam of mysql-5.5)"
    assert judged(ACROSS.between(2.5, 3.5), BESIDE).verdict is HOLDS


def test_figures_are_summed_in_the_rounds_that_have_all_of_them():
    """Two tables together; the third round of one was noisy."""
    both = Sum((Figure("aria", "average_ms"), Figure("other", "average_ms")))
    of = Record([run(), *on("mariadb", "aria", 30, 40, 50), *on("mariadb", "other", 1, 2)])

    assert both.series(of, "mariadb") == {1: 31, 2: 42}
    assert (both.label, both.unit) == ("(average_ms(aria) + average_ms(other))", "ms")
    assert (both <= 50).cases == ("aria", "other")


def test_a_doubt_about_the_other_engine_counts():
    """The same figures, one of them unproved."""
    doubted = Measurement(
        engine="mysql-5.5",
        round=3,
        case="myisam",
        figures={"average_ms": 10.0},
        proofs=[Proof(what="on disk", expected="60", found="0", ok=False)],
    )
    judgement = judged(ACROSS.between(2.5, 3.5), BESIDE.plus(doubted))

    assert judgement.verdict is UNKNOWN and "on disk" in judgement.reason


def test_noise_on_the_other_engine_is_told():
    """Too few quiet rounds there are too few pairs."""
    noisy = [
        Measurement(engine="mysql-5.5", round=n, case="myisam", figures={"average_ms": 10.0}, noise=Noise(quiet=False))
        for n in (1, 2, 3)
    ]
    of = Record([run(engines=["mariadb", "mysql-5.5"]), *on("mariadb", "aria", 30, 30.3, 29.7), *noisy])

    assert "no quiet round of myisam (myisam, round 1: noisy host" in judged(ACROSS <= 4, of).reason


def test_an_undecided_claim_tells_its_interval_and_what_it_straddles():
    """UNKNOWN comes with the figures that made it so."""
    assert "straddles 0.895" in judged(ASYNC >= 0.895).reason
    assert "undecided after 4 rounds" in judged(ASYNC >= 0.895).reason


def test_the_law_is_clients_over_the_measured_round_trip():
    """16 clients that each wait 80 ms commit 200 times a second."""
    of = Record([run(), measurement("after-sync-85ms-16", 1, figures={"rtt_p50_ms": 80.0})])

    assert PerRoundTrip("after-sync-85ms-16", 16).series(of, "mariadb") == {1: 200.0}


def test_pairs_are_made_of_the_same_round():
    """A round that is quiet on one side only makes no pair."""
    of = replaced(record(4), "none", 2, noise=Noise(quiet=False, why="foreign CPU 0.4"))

    assert set(ASYNC.series(of, "mariadb")) == {1, 3, 4}


def test_too_few_quiet_rounds_are_unknown_with_the_noise():
    """A noisy host is a reason for UNKNOWN, and the reader is told which noise."""
    of = replaced(record(3), "none", 2, noise=Noise(quiet=False, why="foreign CPU 0.4"))

    judgement = judged(ASYNC >= 0.7, of)

    assert judgement.verdict is UNKNOWN
    assert "only 2 quiet rounds" in judgement.reason
    assert "none, round 2: foreign CPU 0.4" in judgement.reason


@pytest.mark.parametrize(
    ("sabotage", "reason"),
    [
        ({"faults": [toxic(seen=False, during=0.4)]}, "fault not seen: requested 85 ms"),
        ({"proofs": [Proof(what="no_tx", expected="+0", found="+3", ok=False)]}, "no_tx: expected +0, found +3"),
        ({"doubts": ["semi-sync fell back"]}, "semi-sync fell back"),
        ({"figures": {"rtt_p50_ms": math.nan}}, "could not be computed in round 2"),
        ({"figures": {"rtt_p50_ms": 0.0}}, "could not be computed in round 2"),
    ],
)
def test_one_untrustworthy_measurement_makes_its_claims_unknown(sabotage, reason):
    """An unseen fault, a failed proof, a doubt or a failed computation in one round undoes a claim that would hold."""
    relation = (throughput("after-sync-85ms-1") / PerRoundTrip("after-sync-85ms-1")).between(0.95, 1)
    assert judged(relation).verdict is HOLDS

    judgement = judged(relation, replaced(record(4), "after-sync-85ms-1", 2, **sabotage))

    assert judgement.verdict is UNKNOWN
    assert reason in judgement.reason


def test_a_doubt_about_one_case_leaves_claims_about_others_alone():
    """Only the claims that use the doubtful case are undone."""
    of = replaced(record(4), "after-sync-85ms-1", 2, doubts=["semi-sync fell back"])

    assert judged(ASYNC >= 0.7, of).verdict is HOLDS


def test_a_doubt_about_the_run_makes_every_claim_unknown():
    """Nothing holds when the replica differs from the source at the end."""
    of = record(4, ("mariadb",), Doubt(engine="mariadb", reason="replica and source differ"))

    assert {j.verdict for j in experiment().judge(of)} == {UNKNOWN}


@pytest.mark.parametrize(
    "relation",
    [
        ASYNC >= 0.7,
        Total("none", "lost").is_zero(trials="trials"),
        Total("none", "lost").is_positive(),
    ],
)
def test_cases_that_were_not_measured_are_unknown(relation):
    """Nothing measured is nothing known."""
    judgement = judged(relation, Record([run(), lab()]))

    assert judgement.verdict is UNKNOWN
    assert "was not measured" in judgement.reason


def test_a_figure_that_nobody_took_is_unknown_and_names_those_taken():
    """A misspelt figure is told from a case that did not run."""
    judgement = judged(Figure("none", "thruput") >= 1)

    assert judgement.verdict is UNKNOWN
    assert "recorded were" in judgement.reason and "throughput" in judgement.reason


def test_figures_that_never_vary_are_unknown():
    """Equal figures in all rounds tell nothing about their spread, so no interval of zero width decides."""
    of = Record([run(), *(measurement("none", n, figures={"throughput": 5.0}) for n in range(1, 9))])

    judgement = judged(throughput("none") >= 1, of)

    assert judgement.verdict is UNKNOWN
    assert "exactly the same" in judgement.reason


def test_rounds_beyond_the_plan_are_unknown():
    """A look that was not planned is not corrected for."""
    assert "the error budget covers only the 8 planned ones" in judged(ASYNC >= 0.7, record(9)).reason


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([(0, 10), (0, 10), (0, 10)], HOLDS),
        ([(0, 10), (0, 10)], UNKNOWN),
        ([(0, 10), (1, 10)], REFUTED),
        ([(0, 0)], UNKNOWN),
        ([(0, 30), (math.nan, 10)], UNKNOWN),
        ([(0, 30), (0, math.nan)], UNKNOWN),
    ],
)
def test_never_needs_enough_trials_and_one_counterexample_refutes_it(rounds, verdict):
    """Zero in enough trials holds, one counterexample refutes, a count that failed decides nothing."""
    judgement = judged(Total("none", "lost").is_zero(trials="trials", at_least=30), counts(*rounds))

    assert judgement.verdict is verdict


@pytest.mark.parametrize(("rounds", "verdict"), [([(0, 10), (1, 10)], HOLDS), ([(0, 10)] * 8, UNKNOWN)])
def test_once_is_enough_and_never_seen_proves_nothing(rounds, verdict):
    """One example holds; its absence is UNKNOWN, not REFUTED."""
    assert judged(Total("none", "lost").is_positive(), counts(*rounds)).verdict is verdict


def test_a_counterexample_in_a_noisy_round_counts():
    """A lost row is lost, however busy the host was."""
    lost = Measurement(
        engine="mariadb", round=4, case="none", figures={"lost": 1, "trials": 10}, noise=Noise(quiet=False)
    )
    of = counts((0, 10), (0, 10), (0, 10)).plus(lost)

    assert judged(Total("none", "lost").is_zero(trials="trials"), of).verdict is REFUTED


def test_who_was_late_in_a_noisy_round_is_not_counted():
    """What time has a part in is told by quiet rounds only."""
    late = Measurement(
        engine="mariadb", round=4, case="none", figures={"late": 1, "trials": 10}, noise=Noise(quiet=False)
    )
    rounds = [
        Measurement(engine="mariadb", round=n, case="none", figures={"late": 0, "trials": 10}) for n in range(1, 4)
    ]
    of = Record([run(), *rounds, late])

    assert judged(Total("none", "late", quiet=True).is_zero(trials="trials"), of).verdict is HOLDS


@pytest.mark.parametrize(
    ("quiet", "relation", "verdict"),
    [
        (False, ASYNC >= 0.7, HOLDS),
        (True, ASYNC >= 0.7, UNKNOWN),
        (False, Total("none", "commits").is_positive(), UNKNOWN),
    ],
)
def test_a_doubt_counts_where_the_measurement_does(quiet, relation, verdict):
    """Noise that broke a proof spoils no quiet round; a count that takes noisy rounds takes their doubts as well."""
    doubted = Measurement(
        engine="mariadb", round=9, case="none", figures={"commits": 3}, doubts=["slow"], noise=Noise(quiet=quiet)
    )

    assert judged(relation, record(4).plus(doubted)).verdict is verdict


def test_what_was_decided_before_an_interruption_stays_decided():
    """An interrupted run keeps its decisions; what was open is UNKNOWN because of the interruption."""
    decided = record(4, ("mariadb",), End(why="interrupted", reason="SIGINT"))
    still_open = record(2, ("mariadb",), End(why="interrupted", reason="SIGINT"))

    assert judged(ASYNC >= 0.7, decided).verdict is HOLDS
    assert judged(ASYNC >= 0.7, still_open).reason.startswith("interrupted by SIGINT; only 2 quiet rounds")


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (record(2, ("mariadb",), End(why="crashed", reason="no space left")), "the run crashed: no space left"),
        (Record(record(2).events, torn=True), "the run was killed"),
    ],
)
def test_a_run_that_broke_off_says_so(of, reason):
    """What a crashed or killed run left open names the crash."""
    assert reason in judged(ASYNC >= 0.7, of).reason


def test_a_judge_that_crashes_decides_nothing():
    """An error within a claim is UNKNOWN with the error, even when the relation had already decided."""

    def broken(record, engine):
        raise KeyError("rtt")

    judgement = judged(ASYNC >= 0.7, predicted=broken)

    assert judgement.verdict is UNKNOWN
    assert "KeyError: 'rtt'" in judgement.reason


@pytest.mark.parametrize(
    ("predicted", "value"),
    [
        (0.9, 0.9),
        (lambda record, engine: 2.0, 2.0),
        (rtt("none"), None),
        (None, None),
        (math.nan, None),
    ],
)
def test_a_prediction_may_be_a_number_a_quantity_or_computed(predicted, value):
    """Whatever a prediction is made of, it comes out as a number or not at all."""
    assert judged(ASYNC >= 0.7, predicted=predicted).predicted == value


@pytest.mark.parametrize(
    ("relation", "expected", "changed", "code"),
    [
        (ASYNC >= 0.7, HOLDS, False, 0),
        (ASYNC >= 0.7, REFUTED, True, 1),
        (ASYNC >= 0.99, REFUTED, False, 0),
        (ASYNC >= 0.99, HOLDS, True, 1),
        (ASYNC >= 0.895, HOLDS, False, 3),
        (ASYNC >= 0.895, REFUTED, False, 3),
    ],
)
def test_only_a_changed_verdict_fails_and_unknown_is_never_green(relation, expected, changed, code):
    """The exit code is 1 for a verdict that is not the expected one, 3 for UNKNOWN, 0 otherwise."""
    judgement = judged(relation, expected=Expected(expected, "because"))

    assert judgement.changed is changed
    assert exit_code([judgement]) == code


def test_a_change_outweighs_unknown_and_nothing_judged_is_not_green():
    """One changed verdict makes 1 whatever else there is; no verdicts at all make 3."""
    changed, unknown = judged(ASYNC >= 0.99), judged(ASYNC >= 0.895)

    assert exit_code([unknown, changed]) == 1
    assert exit_code([]) == 3


def settled(known, of, engine):
    """Return whether no further round can change a verdict."""
    return all(judgement.settled for judgement in known.judge(of, engine))


@pytest.mark.parametrize("name", ["a-claim", "mariadb:a-claim"])
def test_what_the_preset_need_not_decide_is_judged_where_the_figures_or_a_doubt_tell(name):
    """Left out with the reason it is only where figures lack; a verdict stays, and so does what went wrong."""
    near, plain = (experiment([claim(ASYNC >= bound)], data="{}") for bound in (0.895, 0.7))
    run, *events = record(4).events
    of, elsewhere = (
        Record([structs.replace(run, undecidable={key: "its bound is near"}), *events])
        for key in (name, "mysql:a-claim")
    )
    why = "its bound is near; measured 0.885 [0.853–0.918]"

    assert (near.judge(of), near.not_judged(of)) == ([], [NotJudged("a-claim", "mariadb", why)])
    assert settled(near, of, "mariadb") and not settled(near, elsewhere, "mariadb")
    assert [j.verdict for j in plain.judge(of)] == [HOLDS]
    assert [j.verdict for j in near.judge(replaced(of, "none", 1, doubts=["stuck"]))] == [UNKNOWN]


def test_a_run_is_decided_when_no_round_can_change_anything():
    """Undecided figures want more rounds; verdicts and doubts do not."""
    few, open_claim = experiment(), claim(ASYNC >= 0.895)

    assert not settled(few, record(2), "mariadb")
    assert not settled(experiment([open_claim], data="{}"), record(4), "mariadb")
    assert settled(experiment([claim(ASYNC >= 0.7)], data="{}"), record(4), "mariadb")
    assert settled(experiment([open_claim], data="{}"), replaced(record(4), "none", 1, doubts=["stuck"]), "mariadb")
