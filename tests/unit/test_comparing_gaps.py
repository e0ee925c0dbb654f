"""Is what the second of two runs lacks unknown, and never green?"""

import pytest
from msgspec.structs import replace
from replication_lab.model.comparing.digest import ENDED_BY_NOISE, NO_QUIET_ROUND, CaseDigest, ClaimDigest, digest
from replication_lab.model.core.event import NOISY, End
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.record.record import Record
from replication_lab.report.compared import markdown_text

from tests.unit import synthetic
from tests.unit.synthetic_digests import changed, compare, on_another_machine, run, several

LATENCY_ONLY = {"none": CaseDigest({"latency_p50_ms": [1.0] * 6})}


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ({}, "the second run did not measure this case"),
        (LATENCY_ONLY, "a round of the second run has no such figure"),
        ({"none": CaseDigest({}, ["no commit"])}, "not verified: no commit"),
    ],
)
def test_what_the_second_run_lacks_is_unknown(cases, said):
    """A case in which nothing could be measured is no reason for a green answer."""
    found = compare(run(seed=1), changed(run(seed=2), cases=cases), 0.1)

    assert found.exit_code == 3
    assert [(change.of, change.reason) for change in found.changes if change.judged] == [("none", said)]


def test_a_figure_that_only_the_second_run_has_is_unknown_in_a_case_of_both():
    """The first run failed there: there is nothing to compare with."""
    found = compare(changed(run(seed=1), cases=LATENCY_ONLY), run(seed=2), 0.1)

    assert found.exit_code == 3
    assert found.changes[0].reason == "a round of the first run has no such figure"


def test_a_case_that_is_new_is_said_and_not_judged():
    """It cannot be worse than before."""
    after = [
        changed(each, cases={**each.engines["mariadb"].cases, "far": LATENCY_ONLY["none"]}) for each in several(seed=2)
    ]
    found = compare(several(seed=1), after, 0.1)

    assert found.exit_code == 0
    assert "cases of mariadb in the second run only: far" in found.differs


def test_an_engine_that_only_the_first_run_measured_is_unknown():
    """Each of its cases, and none of the other engine's."""
    before = run(seed=1)
    both = {**before.engines, "mysql-8.0": before.engines["mariadb"]}
    found = compare(replace(before, engines=both), run(seed=2), 0.1)

    assert found.exit_code == 3
    assert {change.engine for change in found.changes if not change.ratio} == {"mysql-8.0"}


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({}, "the second run did not judge this claim"),
        (
            {"fast": ClaimDigest("It is fast.", Verdict.HOLDS, False)},
            "a round of the second run has no such ratio, or it was not verified",
        ),
    ],
)
def test_a_claim_that_the_second_run_lacks_is_unknown_on_another_machine(claims, said):
    """There only claims are judged."""
    found = compare(run(seed=1), on_another_machine(changed(run(seed=2), claims=claims)), 0.1)

    assert found.exit_code == 3
    assert [change.reason for change in found.changes] == [said]


def test_a_compared_figure_that_neither_run_has_is_unknown():
    """One round in which it could not be computed leaves it out of a digest."""
    half = CaseDigest({"throughput": [1000.0, 1010.0, 990.0]}, compared=("throughput", "raid1_rows_per_second"))
    found = compare(changed(run(seed=1), cases={"one": half}), changed(run(seed=2), cases={"one": half}), 0.1)

    assert found.exit_code == 3
    assert [(change.figure, change.reason) for change in found.changes if change.figure and not change.ratio] == [
        ("raid1_rows_per_second", "a round of the first and of the second run has no such figure")
    ]


def test_an_unexpected_verdict_of_a_claim_that_is_new_is_unknown():
    """It did not become worse, and it is not green either."""
    new = {**run(seed=2).engines["mariadb"].claims, "new": ClaimDigest("It is new.", Verdict.REFUTED, True)}
    found = compare(run(seed=1), changed(run(seed=2), claims=new), 0.1)

    assert found.exit_code == 3
    assert [change.reason for change in found.changes if change.of == "new"] == [
        "the verdict is REFUTED, which is unexpected, and the first run did not judge this claim"
    ]


NO_RATIOS = {"fast": ClaimDigest("It is fast.", Verdict.HOLDS, False)}
UNKNOWN = {"fast": ClaimDigest("It is fast.", Verdict.UNKNOWN, False)}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (NO_RATIOS, None, "a round of the first run has no such ratio, or it was not verified"),
        (UNKNOWN, NO_RATIOS, "only the verdict can be compared"),
        (UNKNOWN, UNKNOWN, "only the verdict can be compared"),
    ],
)
def test_a_claim_that_the_first_run_did_not_show_is_unknown_on_another_machine(before, after, said):
    """Nothing says that it became no worse."""
    second = run(seed=2) if after is None else changed(run(seed=2), claims=after)
    found = compare(changed(run(seed=1), claims=before), on_another_machine(second), 0.1)

    assert found.exit_code == 3
    assert [change.reason for change in found.changes if change.judged] == [said]


def test_a_run_that_stopped_is_unknown_and_says_why():
    """A server that died ends a run; the rounds before it say nothing about that."""
    whole, broken = run(seed=1), run(seed=2, stopped="the run crashed: no node")
    found = compare(whole, broken, 0.1)

    assert (found.exit_code, compare(broken, whole, 0.1).exit_code) == (3, 3)
    assert found.stopped == ["the second run is not complete: the run crashed: no node"]
    assert found.stopped[0] in markdown_text(found, 0.1)
    assert compare(whole, run(700, seed=2, stopped="the run crashed: no node"), 0.1).exit_code == 1


def test_a_case_that_failed_in_both_runs_is_unknown():
    """Neither run has its throughput; the other case is fine."""
    failed = CaseDigest({}, ["no commit"])
    near = run().engines["mariadb"].cases
    both = changed(run(), cases={**near, "far": failed})
    found = compare(both, both, 0.1)

    assert found.exit_code == 3
    assert [change.reason for change in found.changes if change.of == "far"] == ["not verified: no commit"]


@pytest.mark.parametrize(
    ("events", "stopped"),
    [
        ([End(why="decided")], ""),
        ([End(why=NOISY)], ENDED_BY_NOISE),
        ([End(why="crashed", reason="no node")], "the run crashed: no node"),
        ([], "its record has no end: it was killed, or still runs"),
    ],
)
def test_how_a_run_ended_is_part_of_what_is_compared(events, stopped):
    """Only a run that ended by its own rules is whole."""
    record = Record([synthetic.run(), synthetic.lab(), synthetic.measurement("none", 1), *events])

    assert digest("a run", synthetic.experiment(), record).stopped == stopped


def test_a_case_without_a_quiet_round_is_part_of_what_is_compared():
    """It has no figure, and the reason."""
    noisy = synthetic.measurement("none", 1, noise=Noise(quiet=False))
    record = Record([synthetic.run(), synthetic.lab(), noisy, End(why="decided")])
    (case,) = digest("a run", synthetic.experiment(), record).engines["mariadb"].cases.values()

    assert case == CaseDigest({}, [NO_QUIET_ROUND], compared=("throughput",))
