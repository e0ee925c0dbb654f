"""Does a run measure what it planned, stop when it may, and end in UNKNOWN when something was wrong?"""

import os
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs
from replication_lab import runs as running
from replication_lab.experiments import load
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.published import Data, KnownVerdict
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.toxic import ToxicBody

from tests.fakes import troubles
from tests.unit.synthetic_runs import COMMIT_COSTS_A_TRIP, FAR, at, order, tiny, verdicts

semisync_wan = load("semisync_wan")

# The model keeps the laws, so that nothing is expected of it but that they hold; what real engines refute is data.
LAWFUL = replace(semisync_wan, data=structs.replace(semisync_wan.data, expected=[]))
# Claims on links without toxics compare a round trip of a quarter of a millisecond with a commit.
FAST = {"commit_ms": 0.6}
LEVEL = Claim("level", "none is as fast as itself", throughput("none") / throughput("again") >= 1.0)


def again() -> Case:
    """Return the same case under another name: comparing the two compares noise with itself."""
    return replace(semisync_wan.case("none"), name="again")


def shortened(preset: Preset) -> Experiment:
    """Return semisync_wan itself, all its cases and claims, in the fewest rounds that can decide it."""
    return replace(LAWFUL, presets={"quick": preset})


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_the_published_claims_hold_in_the_model(ran):
    """In a world that keeps the laws every claim of semisync_wan holds, and the run ends as soon as it is decided."""
    summary, record, world = ran(LAWFUL, **FAST)

    assert (summary.exit_code, record.end.why) == (0, "decided")
    assert set(verdicts(summary).values()) == {Verdict.HOLDS}
    assert world.loads < len(semisync_wan.cases) * semisync_wan.preset("quick").max_rounds


def test_a_server_without_wait_points_is_judged_by_what_it_has(ran, brief):
    """Cases that MySQL 5.5 cannot have are not run, not judged, and listed with the reason."""
    summary, record, _ = ran(shortened(brief), engines=["mysql-5.5"])

    assert not [m.case for m in record.measurements if m.case.startswith("after-sync")]
    assert "after-sync-never-shows-early" not in verdicts(summary)
    assert summary.not_judged[0].reason.endswith("mysql-5.5 has no wait_point")


def test_no_round_is_spent_on_what_the_preset_cannot_decide(ran):
    """A claim whose bound lies within the noise would take all rounds."""
    preset = Preset("quick", 2, 9, undecidable={"level": "it compares noise with itself"})
    asked = tiny(COMMIT_COSTS_A_TRIP, LEVEL, cases=[again()], presets={"quick": preset})
    summary, record, _ = ran(asked)

    assert (record.end.why, max(number for number, _ in order(record))) == ("decided", 2)
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}
    (left,) = summary.not_judged
    assert left.claim == "level"
    assert re.fullmatch(r"it compares noise with itself; measured [0-9.]+ \[[0-9.]+–[0-9.]+\]", left.reason)


def test_a_family_of_servers_with_sizes_of_its_own_gets_them(ran, brief):
    """Its loads have them, those of the other family do not, and the record names both."""
    seen = []

    def workload(case, preset):
        seen.append(preset.sizes["far_rows"])
        return semisync_wan.workload(case, preset)

    own = replace(brief, own_sizes={"mysql": {"far_rows": 7}})
    asked = replace(tiny(presets={"quick": own}), workload=workload)
    _, record, _ = ran(asked, engines=["mariadb", "mysql-5.5"])

    assert seen == sorted(seen) and set(seen) == {6, 7}
    assert {name: size for name, size in record.run.settings.items() if name.startswith("far_rows")} == {
        "far_rows": 6,
        "far_rows on mysql": 7,
    }


def test_rounds_are_interleaved(ran):
    """Each round measures every case once before the next round begins."""
    _, record, _ = ran(tiny(LEVEL, cases=[again()], least=3))
    rounds = [{case for number, case in order(record) if number == n} for n in (1, 2, 3)]

    assert [number for number, _ in order(record)] == sorted(number for number, _ in order(record))
    assert rounds == [{"none", FAR, "again"}] * 3


def test_a_seed_gives_the_same_run_again(ran):
    """The order of cases follows from the seed: equal for equal seeds, another for another."""
    many = tiny(LEVEL, cases=[again(), *semisync_wan.cases[1:4]], least=3)
    orders = [order(ran(many, seed=seed)[1]) for seed in (7, 7, 8)]

    assert orders[0] == orders[1] != orders[2]


def test_rounds_stop_when_all_is_decided(ran):
    """A claim far from its bound takes the least number of rounds and no more."""
    _, record, _ = ran(tiny(least=2, most=9))

    assert max(number for number, _ in order(record)) == 2
    assert record.end.why == "decided"


def test_later_rounds_measure_what_is_still_open(ran):
    """After the least number of rounds the cases of decided claims are left alone."""
    _, record, _ = ran(tiny(LEVEL, COMMIT_COSTS_A_TRIP, cases=[again()], least=2, most=4))

    assert {case for number, case in order(record) if number > 2} == {"none", "again"}
    assert record.end.why == "round limit"


def test_rounds_end_at_the_limit_in_unknown(ran):
    """A claim that sits on its bound goes on to the planned limit and is UNKNOWN, with exit status 3."""
    summary, record, _ = ran(tiny(LEVEL, cases=[again()], most=4))

    assert max(number for number, _ in order(record)) == 4
    assert (record.end.why, summary.exit_code) == ("round limit", 3)
    assert "straddles 1" in summary.claims[0].reason


def test_rounds_end_where_the_planned_ones_cannot_decide(ran):
    """A claim that sits on its bound is given up before the ninth round, UNKNOWN, and says what it takes."""
    summary, record, _ = ran(tiny(LEVEL, cases=[again()], most=9))
    claim = summary.claims[0]

    assert max(number for number, _ in order(record)) < 9
    assert (record.end.why, summary.exit_code, claim.verdict) == ("given up", 3, Verdict.UNKNOWN)
    assert claim.rounds_needed > 9
    assert "at this spread it would take" in claim.reason


def test_a_changed_verdict_fails_the_run(ran):
    """A claim that comes out other than expected gives exit status 1."""
    never = Claim("never", "semi-sync is faster", throughput(FAR) / throughput("none") >= 1.0)

    assert ran(tiny(never))[0].exit_code == 1


def test_an_expected_refutation_is_green(ran):
    """A refutation that the data expect, with a reason, gives exit status 0."""
    never = Claim("never", "semi-sync is faster", throughput(FAR) / throughput("none") >= 1.0)
    known = Data(expected=[KnownVerdict("never", "mariadb", Verdict.REFUTED, "it waits for the replica")])

    assert ran(tiny(never, data=known))[0].exit_code == 0


def test_engines_follow_one_another_in_one_record(ran):
    """Two engines give two labs, both taken down, and a verdict for each."""
    summary, record, world = ran(tiny(), engines=["mariadb", "mysql-5.5"])

    assert world.came_up == world.taken_down == ["mariadb", "mysql-5.5"]
    assert [claim.engine for claim in summary.claims] == ["mariadb", "mysql-5.5"]
    assert record.lab("mysql-5.5").version == "5.5.34-fake"


def test_what_the_lab_ran_with_is_recorded(ran):
    """The record states versions, images, the settings read back and the plan."""
    _, record, _ = ran(tiny())

    assert record.lab("mariadb").settings == {"innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0"}
    assert record.lab("mariadb").images == {"source": "sha256:fake", "replica": "sha256:fake"}
    assert record.run.settings == {"min_rounds": 2, "max_rounds": 3, "alpha": 0.05}


def test_the_link_is_calibrated_and_measured_during_every_load(ran):
    """A toxic's evidence holds what was asked and the round trips before, during and after."""
    _, record, _ = ran(tiny())
    faults = [fault for m in record.measurements for fault in m.faults]

    assert len(faults) == 2
    for fault in faults:
        assert (fault.seen, fault.asked) == (True, 85)
        assert fault.before < 1 and fault.after < 1
        assert abs(fault.during.p50 - 85) < 1


def test_no_load_has_the_seed_of_another(ran):
    """An update that is repeated changes nothing: the second load of a round would have nothing to do."""
    seeds = []

    @dataclass
    class Recording:
        load: Any

        def run(self, lab, seed):
            seeds.append(seed)
            return self.load.run(lab, seed)

    ran(replace(tiny(), workload=lambda *asked: Recording(tiny().workload(*asked))), noisy=lambda load: load == 2)

    assert len(set(seeds)) == len(seeds) > 2


# --- sabotage: whatever was wrong, the verdict is UNKNOWN and says why ------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (troubles.fall_back, "semi-sync acknowledged every commit"),
        (troubles.switch_semisync_off, "semi-sync acknowledged every commit"),
        (
            troubles.take_toxics_off,
            "fault not seen: requested 85 ms on source-replica, but for ",
        ),
        (troubles.fail_load, "`sysbench` in load ended with status 1"),
        (troubles.diverge, "replica differs from source in lab.foo"),
    ],
)
def test_a_sabotaged_load_is_never_judged(ran, trouble, reason):
    """One bad load of semi-sync in one round is enough: UNKNOWN with the reason, never HOLDS, exit status 3."""
    undisturbed = ran(tiny())[1]
    bad = [m.case for m in undisturbed.measurements].index(FAR) + 1
    summary, _, _ = ran(tiny(), meanwhile=at(bad, trouble))

    assert verdicts(summary) == {"costs-a-trip": Verdict.UNKNOWN}
    assert reason in summary.claims[0].reason
    assert summary.exit_code == 3


SABOTAGED = [
    (troubles.fall_back, "after-"),
    (troubles.switch_semisync_off, "after-"),
    (troubles.take_toxics_off, "85ms"),
]


@pytest.mark.parametrize(("trouble", "cases"), SABOTAGED, ids=lambda part: getattr(part, "__name__", None))
def test_semisync_wan_sees_each_sabotage_in_every_case_that_it_bends(ran, brief, trouble, cases):
    """Every claim that rests on a sabotaged case is UNKNOWN; those that do not are judged as ever."""
    summary, _, _ = ran(shortened(brief), meanwhile=trouble, **FAST)
    relations = {claim.id: claim.relation.cases for claim in semisync_wan.claims}

    for claim in summary.claims:
        bent = any(cases in case for case in relations[claim.id])
        assert claim.verdict is Verdict.UNKNOWN if bent else claim.verdict is Verdict.HOLDS or claim.rounds, claim
    assert summary.exit_code == 3


def test_a_replica_that_never_acknowledges_is_a_doubt_and_not_a_crash(ran, monkeypatch):
    """A case that cannot be arranged is recorded with the reason, and the other cases go on."""

    def never(*_):
        raise LabError("waited 20 s and a commit acknowledged by a semi-synchronous replica did not come")

    monkeypatch.setattr("replication_lab.replication.source_replica.wait_until_acknowledged", never)
    summary, record, _ = ran(tiny())

    assert summary.claims[0].verdict is Verdict.UNKNOWN
    assert "waited 20 s" in summary.claims[0].reason
    assert record.series("mariadb", "none", "throughput")


def test_a_foreign_toxic_on_the_link_is_a_doubt(ran):
    """A link that another toxic slows down meanwhile is not as slow as requested, and does not recover."""

    def foreign(lab, number):
        if number == 1:
            lab.link("source-replica").add(ToxicBody("foreign", "latency", "upstream", {"latency": 300}))

    summary, _, _ = ran(tiny(), meanwhile=foreign)

    assert summary.claims[0].verdict is Verdict.UNKNOWN
    assert "fault not seen" in summary.claims[0].reason


def test_a_preset_has_the_room_that_it_needs_unless_the_caller_says_otherwise(fake_world, runs, undrawn, monkeypatch):
    """From before anything can be refused until the lab is gone, and not a moment longer; a caller's own value wins."""
    monkeypatch.setenv("LAB_MEMORY", "1024")
    monkeypatch.delenv("LAB_DISK_SIZE", raising=False)
    world, seen = fake_world(), []
    for step in ("make_ready", "lab"):
        monkeypatch.setattr(world, step, _looking(getattr(world, step), seen))
    roomy = Preset("quick", 2, 3, compose_env={"LAB_DISK_SIZE": "4G", "LAB_MEMORY": "2560"})
    running.run(RunRequest(tiny(presets={"quick": roomy}), ["mariadb"], "quick", 7), lambda _: None, world)

    assert seen == [("4G", "1024")] * 2
    assert "LAB_DISK_SIZE" not in os.environ and os.environ["LAB_MEMORY"] == "1024"


def _looking(step, seen):
    def look(*arguments):
        seen.append((os.environ.get("LAB_DISK_SIZE"), os.environ.get("LAB_MEMORY")))
        return step(*arguments)

    return look
