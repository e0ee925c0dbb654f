"""Are differences of two runs found, equal runs accepted, and noisy runs reported as unknown?"""

import zlib
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace
from replication_lab.model.comparing.comparison import ComparedOutcome
from replication_lab.model.comparing.digest import CaseDigest, ClaimDigest, Digest, decode, digest, encode
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.record.record import Record
from replication_lab.report.compared import caveats

from tests.records import compared
from tests.unit import comparison_simulation, synthetic
from tests.unit.synthetic_digests import changed, compare, on_another_machine, run, several

# Pairs of simulated or recorded runs.
pytestmark = pytest.mark.whole


def test_equal_runs_are_not_worse_in_nineteen_of_twenty_repetitions():
    """Five runs of six rounds on each side, at 2 % of noise, differ by nothing but chance."""
    codes = [compare(several(seed=seed), several(seed=seed + 1000), 0.1).exit_code for seed in range(200)]

    assert codes.count(0) >= 190
    assert 1 not in codes


def test_one_run_against_one_shows_no_small_change():
    """Equal runs are assumed to differ by 6 %: neither an equal run nor one that is 15 % slower is decided."""
    for rate in (1000, 850):
        found = compare(run(seed=1), run(rate, seed=2), 0.1)

        assert (found.exit_code, found.changes[0].outcome) == (3, ComparedOutcome.UNKNOWN)
        assert found.changes[0].reason.startswith("equal runs are assumed to differ by 6%; about ")
        assert "one run against one: equal runs differ" in " ".join(caveats(found))


@pytest.mark.parametrize(("many", "code"), [(1, 3), (2, 3), (3, 0), (10, 0)])
def test_more_runs_on_each_side_show_more(many, code):
    """Their spread is estimated then; with few runs it is assumed."""
    assert compare(several(many=many, seed=1), several(many=many, seed=2), 0.1).exit_code == code


@pytest.mark.parametrize(("effect", "shown"), [(0.01, range(18, 21)), (0.06, range(11))])
def test_how_much_equal_runs_differ_is_learned_from_a_baseline(effect, shown):
    """One run against ten that are alike is decided; against ten that differ as the assumption says it is not."""
    codes = [
        compare(
            several(many=10, seed=seed, effect=effect), several(many=1, seed=seed + 100, effect=effect), 0.1
        ).exit_code
        for seed in range(1, 21)
    ]

    assert codes.count(0) in shown and 1 not in codes


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"preset": "full"}, "preset"),
        ({"environment": {"cpus": 8}}, "machine"),
        ({"conditions": {"rtt": "1ms"}}, "rtt"),
    ],
)
def test_runs_that_were_measured_in_different_ways_are_not_taken_together(others, said):
    """Their differences would be taken for chance."""
    with pytest.raises(LabError, match=said):
        compare([*several(), run(seed=9, **others)], run(seed=2), 0.1)


def test_a_run_that_is_on_both_sides_shows_nothing():
    """A baseline may hold the latest run already."""
    before = several()

    assert compare(before, before[2], 0.1).is_one_run


def test_a_claim_has_the_ratios_of_all_runs():
    """Both sides of a ratio come from one round, so what a run has of its own is in neither."""
    before, after = several(many=3), [on_another_machine(each) for each in several(many=2, seed=2)]

    assert [change.ratio.n for change in compare(before, after, 0.1).changes] == [12]


@pytest.mark.parametrize("sides", comparison_simulation.SIDES)
@pytest.mark.parametrize("slower", [1.0, 1.35])
def test_unchanged_runs_that_differ_by_six_per_cent_are_called_worse_in_a_twentieth_at_most(sides, slower):
    """Also if the second ones had CPUs that were 1.35 times as slow; the loop that shows it is read with an error."""
    worse, _ = comparison_simulation.outcomes(sides, 0.06, 1, slower=slower, pairs=200)

    assert worse <= 0.05


@pytest.mark.parametrize("sides", comparison_simulation.SIDES)
def test_runs_at_the_margin_are_decided_wrongly_in_a_twentieth_at_most(sides):
    """Whichever of the two answers is given."""
    assert max(comparison_simulation.outcomes(sides, 0.06, 0.9, pairs=200)) <= 0.05


def test_an_interval_of_the_rounds_alone_is_caught_by_the_simulation():
    """The simulation can fail: what a run has of its own is in none of its rounds."""
    assert min(comparison_simulation.outcomes((1, 1), 0.06, 0.9, pairs=200, widened=False)) > 0.1


def test_kept_runs_are_compared_as_they_were_measured():
    """Ten runs of a server on a disk, and four of the same that flushes its binary log, too."""
    runs = compared.history()
    equal, slower = runs[:10], runs[10:]

    assert {compare(one, other, 0.1).exit_code for one, other in pairwise(equal)} == {3}
    assert [compare(equal[:9], equal[9], 0.1).exit_code, compare(equal[:5], equal[5:], 0.1).exit_code] == [0, 0]
    assert {compare(equal[0], each, 0.1).exit_code for each in slower} == {1}
    assert {compare(equal, each, 0.1).exit_code for each in slower} == {1}


def test_a_slower_run_is_found():
    """Seven tenths of the throughput are worse than 10 % allow."""
    found = compare(run(seed=1), run(700, seed=2), 0.1)

    assert (found.exit_code, found.changes[0].outcome) == (1, ComparedOutcome.WORSE)
    assert found.changes[0].ratio.high < 0.9


def test_a_faster_run_is_not_worse():
    """More commits a second, sooner, are no reason to fail."""
    assert compare(run(seed=1), run(2000, seed=2), 0.1).exit_code == 0


def test_noisy_runs_cannot_tell_and_say_how_many_would():
    """At 30 % of noise three rounds leave open whether 10 % are missing."""
    found = compare(several(many=2, noise=0.3, rounds=3, seed=1), several(many=2, noise=0.3, rounds=3, seed=2), 0.1)

    assert (found.exit_code, found.changes[0].outcome) == (3, ComparedOutcome.UNKNOWN)
    assert found.changes[0].needed_runs > 2
    assert "runs on each side would decide it" in found.changes[0].reason


def test_latency_is_worse_when_it_grows():
    """If median latency is judged, a run with longer commits is worse, and a run with shorter commits is not."""
    assert compare(run(seed=1), run(700, seed=2), 0.1, ["latency_p50_ms"]).exit_code == 1
    assert compare(run(700, seed=1), run(seed=2), 0.1, ["latency_p50_ms"]).exit_code == 0


def test_rates_of_different_machines_are_not_compared():
    """A machine with more CPUs is faster: only the claim's ratio is judged, and the difference is named."""
    found = compare(run(seed=1), on_another_machine(run(400, seed=2)), 0.1)

    assert found.exit_code == 0
    assert [change.of for change in found.changes] == ["fast"]
    assert "cpus: 2, 8" in found.differs


def test_a_ratio_that_fell_is_worse_on_another_machine():
    """The claim's own ratio travels between machines."""
    found = compare(run(seed=1), on_another_machine(run(ratio=0.5, seed=2)), 0.1)

    assert (found.exit_code, found.changes[0].of) == (1, "fast")


def test_a_ratio_that_is_to_lie_between_bounds_is_worse_in_both_directions():
    """Neither direction is better."""
    before, after = run(seed=1), on_another_machine(run(ratio=1.5, seed=2))
    claim = replace(before.engines["mariadb"].claims["fast"], more_is_better=None)
    before = replace(before, engines={"mariadb": replace(before.engines["mariadb"], claims={"fast": claim})})
    claim = replace(after.engines["mariadb"].claims["fast"], more_is_better=None)
    after = replace(after, engines={"mariadb": replace(after.engines["mariadb"], claims={"fast": claim})})

    assert compare(before, after, 0.1).exit_code == 1


def test_a_verdict_that_became_unexpected_is_worse():
    """Whatever the figures say."""
    after = run(seed=2)
    refuted = {"fast": ClaimDigest("It is fast.", Verdict.REFUTED, True, [], True)}
    after = replace(after, engines={"mariadb": replace(after.engines["mariadb"], claims=refuted)})
    found = compare(run(seed=1), after, 0.1)

    assert found.exit_code == 1
    assert found.changes[-1].reason == "the verdict became REFUTED, which is unexpected"


def on_cpus(found: Digest, slower: float, own_cpu: float = 0.5, bound: float = 1.0) -> Digest:
    """Return the run as on CPUs that are `slower` times as slow and vary by 20 %, whose speed the load is bound to."""
    engine = found.engines["mariadb"]
    case = engine.cases["none"]
    dice = np.random.default_rng(zlib.crc32(found.run.encode()))
    varied = np.exp(dice.normal(0, 0.2, len(case.figures["throughput"])))
    loops = slower * varied
    rates = [rate / loop**bound for rate, loop in zip(case.figures["throughput"], loops, strict=True)]
    case = CaseDigest(
        {"throughput": rates, "latency_p50_ms": [1000 / rate for rate in rates]},
        loop_us=(300 * loops).tolist(),
        own_cpu=[own_cpu] * len(rates),
    )
    return replace(found, engines={"mariadb": replace(engine, cases={"none": case})})


@pytest.mark.parametrize("slower", [0.7, 1.0, 1.5])
@pytest.mark.parametrize("figure", ["throughput", "latency_p50_ms"])
@pytest.mark.parametrize(("rate", "code"), [(1000, 0), (800, 1)])
def test_runs_are_compared_as_on_equal_cpus(slower, figure, rate, code):
    """CPUs that are slower in one of the runs neither make it worse nor hide that it is."""
    before = [on_cpus(each, 1.0) for each in several(1000, rounds=12, seed=1)]
    after = [on_cpus(each, slower) for each in several(rate, rounds=12, seed=2)]

    assert compare(before, after, 0.1, [figure]).exit_code == code


@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_a_load_that_waits_is_compared_as_well_on_slower_cpus(slower):
    """Its rate does not follow the speed of the CPUs."""
    before, after = (
        [on_cpus(each, times, bound=0.0) for each in several(seed=seed, rounds=24)]
        for seed, times in ((1, 1.0), (2, slower))
    )

    assert compare(before, after, 0.1).exit_code == 0


@pytest.mark.parametrize(
    ("rate", "slower", "outcome", "said"),
    [
        (800, 1.3, ComparedOutcome.UNKNOWN, "may explain the change"),
        (800, 1.0, ComparedOutcome.WORSE, ""),
        (400, 1.3, ComparedOutcome.WORSE, ""),
        (1000, 0.7, ComparedOutcome.UNKNOWN, "may hide a change"),
        (1500, 0.7, ComparedOutcome.FINE, ""),
    ],
)
def test_a_server_that_uses_the_cpus_more_may_itself_make_them_slow(rate, slower, outcome, said):
    """Then nothing is computed as on equal CPUs: that would excuse the server."""
    before = [on_cpus(each, 1.0, own_cpu=0.5, bound=0.0) for each in several(1000, seed=1, rounds=12)]
    after = [on_cpus(each, slower, own_cpu=0.7, bound=0.0) for each in several(rate, seed=2, rounds=12)]
    change = compare(before, after, 0.1).changes[0]

    assert (change.figure, change.outcome) == ("throughput", outcome)
    assert said in change.reason


def test_equal_runs_on_cpus_of_varying_speed_are_not_worse_in_nineteen_of_twenty_repetitions():
    """Each run has a speed of its own, as on a machine that others use too."""
    dice = np.random.default_rng(7)
    codes = []
    for seed in range(200):
        before, after = (
            [on_cpus(found, float(np.exp(dice.normal(0, 0.15)))) for found in several(noise=0.05, rounds=24, seed=each)]
            for each in (2 * seed + 1, 2 * seed + 2)
        )
        codes.append(compare(before, after, 0.1).exit_code)

    assert codes.count(0) >= 190
    assert 1 not in codes


@pytest.mark.parametrize(
    ("noises", "speeds"),
    [
        (({"loop_us": 310.0, "own_cpu": 0.4}, {"loop_us": 420.0, "own_cpu": 0.5}), ([310, 420], [0.4, 0.5])),
        (({"loop_us": 310.0, "own_cpu": 0.4}, {"loop_us": 999.0, "own_cpu": 0.5, "quiet": False}), ([310], [0.4])),
        (({"loop_us": 310.0, "own_cpu": 0.4}, {"loop_us": 420.0}), ([], [])),
        (({}, {"loop_us": 420.0, "own_cpu": 0.5}), ([], [])),
    ],
)
def test_the_speed_of_the_cpus_is_that_of_the_rounds_that_count(noises, speeds):
    """All quiet rounds have one, or none is used."""
    taken = [synthetic.measurement("none", number, noise=Noise(**noise)) for number, noise in enumerate(noises, 1)]
    record = Record([synthetic.run(), synthetic.lab(), *taken])
    (found,) = digest("a run", synthetic.experiment(), record).engines["mariadb"].cases.values()

    assert (found.loop_us, found.own_cpu) == speeds
    assert len(found.figures["throughput"]) == sum(noise.get("quiet", True) for noise in noises)


def test_runs_without_a_measured_speed_are_compared_as_they_are():
    """Those of older records, and of hosts where threads cannot be pinned."""
    assert compare(on_cpus(run(1000, seed=1), 1.0, bound=0.0), run(700, seed=2), 0.1).exit_code == 1


def test_figures_that_were_not_proved_are_not_compared():
    """A fault that was not seen leaves nothing to compare."""
    after = run(seed=2)
    case = CaseDigest(after.engines["mariadb"].cases["none"].figures, ["fault not seen"])
    after = replace(after, engines={"mariadb": replace(after.engines["mariadb"], cases={"none": case})})
    found = compare(run(seed=1), after, 0.1)

    assert found.exit_code == 3
    assert found.changes[0].reason == "not verified: fault not seen"


@pytest.mark.parametrize(("times", "outcome"), [(1.09, ComparedOutcome.FINE), (1.105, ComparedOutcome.WORSE)])
def test_a_margin_is_a_share_of_the_earlier_value_for_latencies_too(times, outcome):
    """10 % more is allowed, and not 11.1 %."""
    before, after = (
        [
            changed(one, cases={"none": CaseDigest({"latency_p50_ms": [each, each * (1 + at / 5000)] * 3})})
            for at, one in enumerate(several(seed=int(100 * each)))
        ]
        for each in (1, times)
    )
    found = compare(before, after, 0.1, ["latency_p50_ms"])

    assert found.changes[0].outcome is outcome


def test_what_differs_in_server_settings_and_conditions_is_said():
    """So that a reader sees why figures may differ."""
    after = run(seed=2, conditions={"rtt": "40ms"}, preset="full")
    other = replace(after.engines["mariadb"], version="12.0", settings={"sync_binlog": "0"})
    found = compare(run(seed=1), replace(after, engines={"mariadb": other}), 0.1)

    assert found.differs == [
        "preset: ask, full",
        "conditions: as published, rtt 40ms",
        "server: mariadb 11.8, mariadb 12.0",
        "sync_binlog: 1, 0",
    ]


def test_the_only_engines_of_two_runs_are_compared_with_each_other():
    """A newer server may have another name."""
    after = run(seed=2)
    after = replace(after, engines={"mysql": after.engines["mariadb"]})

    assert compare(run(seed=1), after, 0.1).changes[0].engine == "mariadb and mysql"


@pytest.mark.parametrize(
    "others",
    [{"experiment": "semisync_wan"}, {"question": "What else?"}],
    ids=["another experiment", "another question"],
)
def test_runs_of_different_questions_are_refused(others):
    """Their figures mean different things."""
    with pytest.raises(LabError, match="two runs of the same experiment or question"):
        compare(run(), run(**others), 0.1)


def test_a_baseline_is_read_as_it_was_written():
    """Nothing is lost in the file."""
    assert decode(encode(run()), "baseline.json") == run()


@pytest.mark.parametrize("text", [b"", b"{}", b'{"schema": 1, "unknown": 2}'])
def test_a_file_without_a_baseline_is_refused(text):
    """The message names the file and the command that writes one."""
    with pytest.raises(LabError, match="lab report --format baseline"):
        decode(text, "notes.json")


def test_a_newer_baseline_is_refused():
    """An older lab would misread it."""
    with pytest.raises(LabError, match="has schema 99"):
        decode(encode(run(schema=99)), "baseline.json")


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory_mib", "same"), [(4090, True), (4097, False), (8192, False), (None, False)])
def test_the_memory_of_a_machine_is_that_of_its_parts(memory_mib, same):
    """A kernel keeps some MiB for itself, and another one more or fewer."""
    before, after = run(seed=1), run(seed=2)
    other = replace(after, environment={**after.environment, "memory_mib": memory_mib})

    assert compare(before, other, 0.1).same_machine is same


def test_settings_that_an_older_baseline_does_not_hold_are_not_said_to_differ():
    """Since schema 4 it has all that a server's files changed."""
    after = changed(run(seed=2), settings={"sync_binlog": "0", "innodb_io_capacity": "300"})
    today, older = run(seed=1), replace(run(seed=1), schema=3)

    said = compare(older, after, 0.1).differs
    assert "sync_binlog: 1, 0" in said and not [line for line in said if "innodb_io_capacity" in line]
    assert "innodb_io_capacity: None, 300" in compare(today, after, 0.1).differs


def test_about_as_many_runs_as_the_text_says_decide():
    """More than half of those that could not tell can with that many runs, and fewer with half as many."""
    decided = {1.0: 0, 0.5: 0}
    asked = 0
    for seed in range(1, 61):
        [change, *_] = compare(
            several(many=3, seed=seed, effect=0.06), several(many=3, seed=seed + 500, effect=0.06), 0.1
        ).changes
        if change.needed_runs is None or change.needed_runs > 60:
            continue
        asked += 1
        for share in decided:
            many = max(3, round(share * change.needed_runs))
            before, after = (several(many=many, seed=seed + side, effect=0.06) for side in (1000, 2000))
            decided[share] += compare(before, after, 0.1).changes[0].outcome is not ComparedOutcome.UNKNOWN

    assert asked > 30
    assert 0.5 < decided[1.0] / asked < 0.95 and decided[0.5] < decided[1.0]
