"""Do data, claims and presets of an experiment fit each other?"""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Expected, Verdict
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset, schedule
from replication_lab.model.experiment.judgement import NotJudged
from replication_lab.model.experiment.published import parse_data
from replication_lab.model.experiment.quantities import Total, throughput
from replication_lab.model.record.record import Record

from tests.unit import synthetic
from tests.unit.synthetic import claim, experiment, lab, record, run

ASYNC = throughput("async-85ms") / throughput("none")


def test_the_plan_is_the_recorded_one():
    """A record is judged by the rounds that its run planned, not by today's preset."""
    assert experiment().plan(record(3, ("mariadb",), max_rounds=20)).max_rounds == 20
    assert experiment().plan(record(3)).max_rounds == 8


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("expcted: []", "did you mean expected"),
        ("published: {sources: x}", "did you mean source"),
        (
            "expected: [{claim: async-costs-little, engine: mariadb, verdict: UNKNOWN, because: x}]",
            "never an expected verdict",
        ),
        ("expected: [{claim: async-costs-little, engine: mariadb, verdict: REFUTED}]", "because"),
        ("claims: {async-cost-little: {published: 1}}", "did you mean async-costs-little"),
        ("published: {source: x, rows: [{case: nine, figure: throughput, value: 1}]}", "did you mean none"),
        (
            "expected: [{claim: async-costs-little, engine: mariabd, verdict: REFUTED, because: x}]",
            "did you mean mariadb",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused_with_the_nearest_name(data, told):
    """Unknown keys, cases, claims and engines, and verdicts that must not be expected, are errors."""
    with pytest.raises(LabError, match=told):
        experiment(data=data)


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ([claim(throughput("asink-85ms") >= 1)], "did you mean async-85ms"),
        ([claim(ASYNC >= 1), claim(ASYNC >= 2)], "two claims"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims, told):
    """A claim about a case that does not exist, and two claims of one name, are errors."""
    with pytest.raises(LabError, match=told):
        experiment(claims, data="{}")


def test_a_preset_that_leaves_out_an_unknown_claim_is_refused():
    """A misspelt claim would be judged, and take its rounds."""
    with pytest.raises(LabError, match="did you mean a-claim"):
        preset = Preset("quick", undecidable={"a-clam": "its bound is near"})
        Experiment("x", "?", "async", (Case("none"),), (claim(throughput("none") >= 1),), {"quick": preset})


@pytest.mark.parametrize(
    ("own", "told"),
    [({"mariadbs": {"rows": 2}}, "did you mean mariadb"), ({"mariadb": {"row": 2}}, "did you mean rows")],
)
def test_sizes_of_an_engine_that_do_not_fit_are_refused(own, told):
    """A misspelt engine or size would be ignored."""
    with pytest.raises(LabError, match=told):
        preset = Preset("quick", sizes={"rows": 1}, own_sizes=own)
        Experiment("x", "?", "async", (), (), {"quick": preset}, engines=("mariadb",))


def test_published_figures_come_from_the_data():
    """The table in the literature is data, shown with the claim."""
    judgement = experiment().judge(record(4))[0]

    assert judgement.published == 0.88
    assert experiment().published("none") == {"throughput": 1066.8}


def test_a_known_refutation_carries_its_reason():
    """A verdict expected to be REFUTED is not a change, and says because of what."""
    found = {j.id: j for j in experiment().judge(record(4))}["sixteen-clients-pipeline"]

    assert (found.verdict, found.changed) == (Verdict.REFUTED, False)
    assert "AFTER_SYNC" in found.because


def test_rounds_are_shuffled_by_the_seed_alone():
    """Same seed, same orders; each round has every case once; orders differ from round to round."""
    cases = list("abcdefgh")
    rounds = list(schedule(cases, 4, seed=7))

    assert rounds == list(schedule(cases, 4, seed=7))
    assert rounds[:2] == list(schedule(cases, 2, seed=7))
    assert [n for n, _ in rounds] == [1, 2, 3, 4]
    assert all(sorted(order) == cases for _, order in rounds)
    assert len({tuple(order) for _, order in rounds}) == 4
    assert rounds != list(schedule(cases, 4, seed=8))


def test_cases_that_are_compared_are_measured_one_after_another():
    """Also through a third case; the order of the groups, and within each, changes from round to round."""
    cases, compared = list("abcdefgh"), ["ae", "eg", "dx", "bf"]
    rounds = ["".join(order) for _, order in schedule(cases, 20, 7, compared)]

    assert all({"".join(sorted(order))} == {"abcdefgh"} for order in rounds)
    for group in ("aeg", "bf"):
        found = {order[min(map(order.index, group)) :][: len(group)] for order in rounds}
        assert {"".join(sorted(part)) for part in found} == {group}
        assert len(found) > 1
    assert len(set(rounds)) == 20


def test_an_unknown_preset_names_those_that_exist():
    """A misspelt preset is told the nearest."""
    with pytest.raises(LabError, match="did you mean quick"):
        experiment().preset("quikc")


def test_an_experiment_needs_no_data():
    """The smallest experiment has a case and a claim."""
    smallest = Experiment("x", "?", "async", (Case("none"),), (claim(throughput("none") >= 1),))

    assert smallest.expected("a-claim", "mariadb") == Expected()
    assert parse_data("{}") == smallest.data


def test_the_synthetic_run_holds_all_but_the_known_refutation():
    """The record that the other tests sabotage is a sound one."""
    verdicts = {
        j.id: j.verdict
        for j in experiment([c for c in synthetic.CLAIMS if c.id != "link-is-as-asked"]).judge(record(5))
    }

    assert [name for name, verdict in verdicts.items() if verdict is not Verdict.HOLDS] == ["sixteen-clients-pipeline"]


@pytest.mark.parametrize(
    ("needed", "sentence", "ok"),
    [(13, "never", False), (14, "never", True), (3, "never, in at least 3 loads", True), (3, "never, in 3", False)],
)
def test_a_claim_of_never_says_how_few_trials_it_needs(needed, sentence, ok):
    """From 14 trials on, which leave at most a fifth of all open, the number need not be stated."""
    relation = Total("none", "lost").is_zero(trials="trials", at_least=needed)
    if ok:
        assert Claim("a-claim", sentence, relation).sentence == sentence
    else:
        with pytest.raises(LabError, match=f"with 0 in {needed} trials, up to"):
            Claim("a-claim", sentence, relation)


def test_a_case_that_an_engine_cannot_have_leaves_its_claims_out():
    """The claim is not judged for that engine, and the reason is kept."""
    without = lab(not_applicable={"after-commit-85ms-1": "MySQL 5.5 has no wait point"})
    of = Record([run(), without])

    assert "after-commit-shows" not in [j.id for j in experiment().judge(of)]
    assert experiment().not_judged(of) == [
        NotJudged("after-commit-shows", "mariadb", "MySQL 5.5 has no wait point", "after-commit-85ms-1")
    ]
