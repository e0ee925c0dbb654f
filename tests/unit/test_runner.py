"""Does a run measure what it planned, stop when it may, and end in UNKNOWN when something was wrong?"""

import os
from dataclasses import dataclass, replace

import pytest
from msgspec import structs
from replication_lab import runs as running
from replication_lab.experiments.semisync_wan import arrange, prepare
from replication_lab.experiments.semisync_wan import experiment as semisync_wan
from replication_lab.model.claim import Claim
from replication_lab.model.errors import LabError
from replication_lab.model.event import End
from replication_lab.model.experiment import Case, Data, Experiment, KnownVerdict, Preset
from replication_lab.model.quantities import throughput
from replication_lab.model.record import Fault, Record, Spread
from replication_lab.model.toxic import ToxicBody
from replication_lab.model.verdict import Verdict
from replication_lab.runner.session import NOISY_REPEATS, Session, all_at_once, trips
from replication_lab.workloads.sequential_inserts import SequentialInserts
from replication_lab.world import catalogue, journal

from tests.fakes import troubles
from tests.fakes.link import FakeLink

FAR = "after-commit-85ms-1"
# The model keeps the laws, so that nothing is expected of it but that they hold; what real engines refute is data.
LAWFUL = replace(semisync_wan, data=structs.replace(semisync_wan.data, expected=[]))
COMMIT_COSTS_A_TRIP = Claim(
    "costs-a-trip", "semi-sync is slower", throughput(FAR).over(throughput("none")).at_most(0.1)
)
LEVEL = Claim("level", "none is as fast as itself", throughput("none").over(throughput("again")).at_least(1.0))


def tiny(*claims, cases=(), least=2, most=3, data=None, **parts) -> Experiment:
    """Return the two ends of the semi-sync experiment, a few rows each."""
    known = [semisync_wan.case("none"), semisync_wan.case(FAR), *cases]
    plan = Preset("quick", least, most)
    return Experiment(
        name="semisync_wan",
        question="What does a commit cost?",
        topology="semisync",
        cases=tuple(known),
        claims=claims or (COMMIT_COSTS_A_TRIP,),
        presets=parts.pop("presets", {"quick": plan}),
        engines=("mariadb", "mysql-5.5"),
        data=data or Data(),
        **({"workload": lambda *_: SequentialInserts(rows=8), "prepare": prepare, "arrange": arrange} | parts),
    )


def again() -> Case:
    """Return the same case under another name: comparing the two compares noise with itself."""
    return replace(semisync_wan.case("none"), name="again")


def shortened(preset: Preset) -> Experiment:
    """Return semisync_wan itself, all its cases and claims, in the fewest rounds that can decide it."""
    return replace(LAWFUL, presets={"quick": preset})


def at(load: int, trouble: troubles.Meanwhile) -> troubles.Meanwhile:
    """Return the trouble limited to one load."""
    return lambda lab, number: trouble(lab, number) if number == load else None


def verdicts(summary) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in summary.claims}


def order(record: Record) -> list[tuple[int, str]]:
    return [(m.round, m.case) for m in record.measurements]


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_the_published_claims_hold_in_the_model(ran):
    """In a world that keeps the laws every claim of semisync_wan holds, and the run ends as soon as it is decided."""
    summary, record, world = ran(LAWFUL)

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
    assert [(left.claim, left.reason) for left in summary.not_judged] == [("level", "it compares noise with itself")]


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
    """A claim that sits on its bound goes on to the planned limit and is UNKNOWN, with exit status 2."""
    summary, record, _ = ran(tiny(LEVEL, cases=[again()], most=4))

    assert max(number for number, _ in order(record)) == 4
    assert (record.end.why, summary.exit_code) == ("round limit", 2)
    assert "straddles 1" in summary.claims[0].reason


def test_a_changed_verdict_fails_the_run(ran):
    """A claim that comes out other than expected gives exit status 1."""
    never = Claim("never", "semi-sync is faster", throughput(FAR).over(throughput("none")).at_least(1.0))

    assert ran(tiny(never))[0].exit_code == 1


def test_an_expected_refutation_is_green(ran):
    """A refutation that the data expect, with a reason, gives exit status 0."""
    never = Claim("never", "semi-sync is faster", throughput(FAR).over(throughput("none")).at_least(1.0))
    known = Data(expected=[KnownVerdict("never", "mariadb", Verdict.REFUTED, "it waits for the replica")])

    assert ran(tiny(never, data=known))[0].exit_code == 0


def test_engines_follow_one_another_in_one_record(ran):
    """Two engines give two labs, both taken down, and a verdict for each."""
    summary, record, world = ran(tiny(), engines=["mariadb", "mysql-5.5"])

    assert world.came_up == world.taken_down == ["mariadb", "mysql-5.5"]
    assert [claim.engine for claim in summary.claims] == ["mariadb", "mysql-5.5"]
    assert record.lab("mysql-5.5").version == "mysql-5.5-fake"


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
        load: object

        def run(self, lab, seed):
            seeds.append(seed)
            return self.load.run(lab, seed)

    ran(replace(tiny(), workload=lambda *asked: Recording(tiny().workload(*asked))), noisy=lambda load: load == 2)

    assert len(set(seeds)) == len(seeds) > 2


# --- noise ------------------------------------------------------------------------------------------------------------


def test_a_noisy_measurement_is_taken_again_under_the_same_round(ran):
    """One noisy load costs one more measurement of the same case and round; the verdict stays."""
    summary, record, _ = ran(tiny(), noisy=lambda load: load == 1)

    assert order(record)[0] == order(record)[1]
    assert [m.noise.quiet for m in record.measurements[:2]] == [False, True]
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}


def test_a_load_that_failed_while_the_host_was_noisy_is_taken_again(ran):
    """A busy host may be the reason of a failed load as well."""
    summary, record, _ = ran(tiny(), noisy=lambda load: load == 1, meanwhile=at(1, troubles.fail_load))

    assert record.measurements[0].doubts and not record.measurements[0].noise.quiet
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}


def test_a_host_that_stays_noisy_gives_unknown(ran):
    """A host that stays noisy gives UNKNOWN that names the noise, after a limited number of repetitions."""
    summary, _, world = ran(tiny(), noisy=lambda _load: True)

    assert world.loads == 2 * 3 * (1 + NOISY_REPEATS)
    assert summary.exit_code == 2
    assert "other programs used 60% of the CPUs" in summary.claims[0].reason


# --- sabotage: whatever was wrong, the verdict is UNKNOWN and says why ------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (troubles.fall_back, "semi-sync acknowledged every commit"),
        (troubles.switch_semisync_off, "semi-sync acknowledged every commit"),
        (troubles.take_toxics_off, "fault not seen: asked 85 ms on source-replica, link RTT was 0."),
        (troubles.fail_load, "`sysbench` in load ended with 1"),
        (troubles.diverge, "replica differs from source in lab.foo"),
    ],
)
def test_a_sabotaged_load_is_never_judged(ran, trouble, reason):
    """One bad load of semi-sync in one round is enough: UNKNOWN with the reason, never HOLDS, exit status 2."""
    undisturbed = ran(tiny())[1]
    bad = [m.case for m in undisturbed.measurements].index(FAR) + 1
    summary, _, _ = ran(tiny(), meanwhile=at(bad, trouble))

    assert verdicts(summary) == {"costs-a-trip": Verdict.UNKNOWN}
    assert reason in summary.claims[0].reason
    assert summary.exit_code == 2


SABOTAGED = [
    (troubles.fall_back, "after-"),
    (troubles.switch_semisync_off, "after-"),
    (troubles.take_toxics_off, "85ms"),
]


@pytest.mark.parametrize(("trouble", "cases"), SABOTAGED, ids=lambda part: getattr(part, "__name__", None))
def test_semisync_wan_sees_each_sabotage_in_every_case_that_it_bends(ran, brief, trouble, cases):
    """Every claim that rests on a sabotaged case is UNKNOWN; those that do not are judged as ever."""
    summary, _, _ = ran(shortened(brief), meanwhile=trouble)
    relations = {claim.id: claim.relation.cases for claim in semisync_wan.claims}

    for claim in summary.claims:
        bent = any(cases in case for case in relations[claim.id])
        assert claim.verdict is Verdict.UNKNOWN if bent else claim.verdict is Verdict.HOLDS or claim.rounds, claim
    assert summary.exit_code == 2


def test_a_replica_that_never_acknowledges_is_a_doubt_and_not_a_crash(ran, monkeypatch):
    """A case that cannot be arranged is recorded with the reason, and the other cases go on."""

    def never(*_):
        raise LabError("waited 20 s and a commit acknowledged by a semi-synchronous replica did not come")

    monkeypatch.setattr("replication_lab.probes.semisync.wait_until_acknowledged", never)
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
    roomy = Preset("quick", 2, 3, room={"LAB_DISK_SIZE": "4G", "LAB_MEMORY": "2560"})
    running.run(tiny(presets={"quick": roomy}), ["mariadb"], "quick", 7, lambda _: None, world=world)

    assert seen == [("4G", "1024")] * 2
    assert "LAB_DISK_SIZE" not in os.environ and os.environ["LAB_MEMORY"] == "1024"


def _looking(step, seen):
    def look(*arguments):
        seen.append((os.environ.get("LAB_DISK_SIZE"), os.environ.get("LAB_MEMORY")))
        return step(*arguments)

    return look


# --- how a run ends ---------------------------------------------------------------------------------------------------


def test_an_interrupted_run_is_recorded_reported_and_taken_down(fake_world, runs, undrawn):
    """After SIGTERM in a load the record says so, the report exists, the lab is gone and the exit status is not 0."""
    world = fake_world(meanwhile=at(3, troubles.interrupt))
    folder, summary = running.run(tiny(), ["mariadb"], "quick", 7, lambda _: None, world=world)

    assert summary.interrupted == "SIGTERM"
    assert summary.exit_code == 2
    assert "interrupted by SIGTERM" in summary.claims[0].reason
    assert world.taken_down == ["mariadb"]
    assert {"record.jsonl", "summary.json", "junit.xml", "report.html"} <= {path.name for path in folder.iterdir()}


def test_an_interruption_after_the_decision_is_not_green(ran, monkeypatch):
    """A run that was stopped before its copies were compared is not as expected, however well it went until then."""

    def interrupt(_session):
        raise KeyboardInterrupt("SIGINT")

    monkeypatch.setattr(Session, "compare_copies", interrupt)
    summary, record, _ = ran(tiny())

    assert (record.end.why, summary.claims[0].verdict) == ("interrupted", Verdict.HOLDS)
    assert summary.exit_code == 2


def test_a_crashed_run_is_recorded_reported_and_taken_down(fake_world, runs, undrawn):
    """A defect of the harness leaves a record that says crashed, a report with status 3, no lab, and is raised."""
    world = fake_world(meanwhile=at(3, troubles.crash))
    with pytest.raises(ZeroDivisionError):
        running.run(tiny(), ["mariadb"], "quick", 7, lambda _: None, world=world)
    folder, record = journal.read(str(runs / "latest"))

    assert record.crashed == "ZeroDivisionError: a defect of the harness"
    assert record.end.why == "crashed"
    assert '"exit_code": 3' in (folder / "summary.json").read_text()
    assert world.taken_down == ["mariadb"]


def test_a_lab_is_taken_down_when_it_cannot_be_prepared(fake_world, runs):
    """What fails before the first load takes the lab away as well."""

    def fail(_lab):
        raise LabError("no table", "a table")

    world = fake_world()
    with pytest.raises(LabError, match="no table"):
        running.run(tiny(prepare=fail), ["mariadb"], "quick", 7, lambda _: None, world=world)

    assert world.taken_down == ["mariadb"]


def test_bad_names_are_refused_before_anything_starts(fake_world, runs, refused):
    """An unknown engine or preset leaves no folder and no lab."""
    world = fake_world()
    error = refused(lambda: running.run(tiny(), ["mariadbb"], "quick", 7, print, world=world))
    assert "did you mean mariadb?" in error.found
    error = refused(lambda: running.run(tiny(), ["mariadb"], "quik", 7, print, world=world))
    assert "did you mean quick?" in error.found

    assert not runs.exists() and not world.came_up


WITHOUT_SEMI_SYNC = [name for name, each in catalogue.engines().items() if "semisync" not in each.features]


@pytest.mark.parametrize("engine", WITHOUT_SEMI_SYNC)
def test_a_server_without_semi_sync_is_refused_with_the_reason(engine, fake_world, runs, refused):
    """Beside a server that has it too: the pair is impossible, so nothing of the run is begun."""
    world = fake_world()
    error = refused(lambda: running.run(semisync_wan, ["mysql-8.0", engine], "quick", 7, print, world=world))

    assert f"engine {engine} has no semisync, which semisync needs: semi-sync is a plugin" in error.found
    assert "mysql-8.0" in error.expected and engine not in error.expected.split(", ")
    assert not runs.exists() and not world.came_up


def test_a_run_is_judged_again_from_its_record_alone(fake_world, runs, brief, undrawn):
    """`lab judge` of a finished run gives the same summary, here where no unit test can reach Docker."""
    known = replace(semisync_wan, presets={"quick": brief})
    _, first = running.run(known, ["mariadb"], "quick", 7, lambda _: None, world=fake_world())

    assert running.judge("latest") == first


def test_a_report_can_be_written_again(ran, runs, monkeypatch):
    """`lab report` writes the same three files from the record."""
    monkeypatch.setattr("replication_lab.report.page._charts", lambda *_: [])
    ran(tiny())

    assert [path.rpartition("/")[2] for path in running.report("latest")] == [
        "summary.json",
        "junit.xml",
        "report.html",
    ]
    assert "semisync_wan" in (runs / "latest" / "report.html").read_text()


def test_an_unknown_run_names_the_runs_there_are(ran, runs, refused):
    """Asking for a record that does not exist lists the latest that do."""
    ran(tiny())

    assert refused(running.judge, "yesterday").expected == (runs / "latest").resolve().name


def test_two_runs_in_one_second_have_folders_of_their_own(runs):
    """The second of two runs with one name gets a number, and latest points at it."""
    from datetime import datetime

    noon = datetime(2030, 1, 1, 12)
    first, second = (journal.Journal("x", now=lambda: noon, runs=runs) for _ in range(2))
    for each in (first, second):
        each.write(End(why="done"))

    assert (first.folder.name, second.folder.name) == ("20300101-120000-x", "20300101-120000-x-2")
    assert (runs / "latest").resolve() == second.folder


# --- several links and several topologies -----------------------------------------------------------------------------


def fault(link, low, middle, asked=85.0, unit="ms") -> Fault:
    """Return a toxic whose shortest round trip was `low` and whose median was `middle`."""
    return Fault(link=link, toxic="x", unit=unit, asked=asked, during=Spread(low, middle, middle + 9, 20), seen=True)


def test_links_of_one_length_have_a_common_round_trip():
    """The shortest of any link, and the median of the links' medians."""
    found = trips([fault("a", 84.2, 85.1), fault("b", 84.6, 85.3), fault("c", 84.4, 90.0)])

    assert found == {"rtt_min_ms": 84.2, "rtt_p50_ms": 85.3}


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [fault("a", 84, 85), fault("b", 199, 200, asked=200.0)],
        [fault("a", 84, 85), structs.replace(fault("b", 84, 85), during=None)],
    ],
)
def test_links_that_differ_have_no_common_round_trip(faults):
    """No link, links of different lengths, a link from which nothing came back: no figure that could mislead."""
    assert trips(faults) == {}


class Part:
    """A context that writes down what happens to it."""

    def __init__(self, told, name, fails=()):
        self.told, self.name, self.fails = told, name, fails

    def __enter__(self):
        if "enter" in self.fails:
            raise LabError(f"{self.name} cannot be entered", "an entry")
        return self.name

    def __exit__(self, *_):
        self.told.append(self.name)
        if "exit" in self.fails:
            raise LabError(f"{self.name} cannot be left", "a way out")


def test_parts_entered_at_once_are_all_left():
    """In the order in which they were given their values come, and after the block each has been left."""
    told = []
    with all_at_once([Part(told, "a"), Part(told, "b")]) as entered:
        assert (entered, told) == (["a", "b"], [])

    assert sorted(told) == ["a", "b"]


@pytest.mark.parametrize("where", ["enter", "exit"])
def test_a_part_that_fails_leaves_no_other_behind(where):
    """Sabotage: one part cannot be entered, or left; the others are left all the same, and the error is told."""
    told = []
    with pytest.raises(LabError, match="b cannot be"), all_at_once([Part(told, "a"), Part(told, "b", (where,))]):
        pass

    assert "a" in told


def test_the_interruption_of_a_block_leaves_its_parts():
    """Ctrl-C in the middle of a load takes the toxics off."""
    told = []
    with pytest.raises(KeyboardInterrupt), all_at_once([Part(told, "a")]):
        raise KeyboardInterrupt

    assert told == ["a"]


def test_a_calibration_does_not_chase_a_busy_machine(ran):
    """Round trips that were long for want of CPU do not make the link too short afterwards."""
    slow = {"on": False}

    def busy(lab, number):
        slow["on"] = number < 3

    plain = FakeLink.round_trip_ms

    def round_trip(link):
        found = plain(link)
        return found + 12 if slow["on"] and link._dice.random() < 0.7 else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeLink, "round_trip_ms", round_trip)
        _, record, _ = ran(tiny(least=3, most=4), meanwhile=busy)
    last = [fault for m in record.measurements if m.round == 3 for fault in m.faults]

    assert all(found.during.min > 82 for found in last)


def test_a_preset_that_names_an_unknown_case_is_refused(refused):
    """The nearest case is suggested."""
    error = refused(tiny, presets={"quick": Preset("quick", cases=("nine",))})

    assert "did you mean none?" in error.found
