"""Do raid_replica and raid_appliers decide which replica catches up, and doubt invalid races?"""

from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import NoInterval, slope
from replication_lab.model.core.verdict import Verdict
from replication_lab.probes.disk_activity import look, work
from replication_lab.probes.lag import Lag
from replication_lab.report import charts, summarise
from replication_lab.workloads.race import judged
from replication_lab.world.disks import array as arrays

# As many rounds as decide every claim in the model: a race that is doubted takes no more of them.
ROUNDS = 3


def quick(name):
    """Return the experiment as published, its quick preset alone, in ROUNDS rounds."""
    known = experiments.load(name)
    return replace(known, presets={"quick": replace(known.preset("quick"), min_rounds=ROUNDS, max_rounds=ROUNDS)})


KNOWN = quick("raid_replica")
MODEL = replace(KNOWN, data=type(KNOWN.data)())
APPLIERS = experiments.load("raid_appliers")
APPLIERS_MODEL = replace(quick("raid_appliers"), data=type(APPLIERS.data)())


def test_the_law_holds_in_the_model(undisturbed):
    """RAID0 writes and applies twice as much, catches up under a load that RAID1 falls behind of, and rests then."""
    summary = summarise(MODEL, undisturbed(KNOWN)[1])

    assert {claim.id: claim.verdict for claim in summary.claims} == {
        claim.id: Verdict.HOLDS for claim in summary.claims
    }
    assert len(summary.claims) == 8


def test_figures_stand_beside_law_and_literature(undisturbed):
    """Writes a second: published, predicted and measured; the lag of both replicas over time for the chart."""
    summary, record = undisturbed(KNOWN)
    figures = next(case for case in summary.cases if case.name == "one").figures
    samples = record.measurements[0].samples

    assert (figures["raid0_writes_per_second"].published, figures["raid0_writes_per_second"].predicted) == (5399, 400)
    assert figures["raid0_writes_per_second"].value == pytest.approx(400, rel=0.05)
    assert len(samples["at_s"]) == len(samples["lag_raid0"]) == len(samples["lag_raid1"]) > 20


def test_the_load_is_between_what_both_apply(undisturbed):
    """The rate is searched anew in each round, and reached."""
    _, record = undisturbed(KNOWN)

    for measured in record.measurements:
        figures = measured.figures
        assert figures["raid1_rows_per_second"] < figures["load_rows_per_second"] < figures["raid0_rows_per_second"]


def test_four_appliers_cost_the_disks_the_same(ran):
    """In the model only disks count: more appliers gain nothing."""
    summary, record, _ = ran(APPLIERS_MODEL, preset="quick")
    verdicts = {claim.id: claim.verdict for claim in summary.claims}

    assert verdicts["optimistic-one-database-gains-nothing"] is Verdict.HOLDS
    assert verdicts["optimistic-rescues-raid1"] is Verdict.REFUTED
    assert any(chart.name.endswith("optimistic-durable") for chart in charts.lags("mariadb", summary, record))


def test_modes_of_other_engines_are_left_out(ran):
    """MariaDB has no appliers by database: neither green nor red."""
    quick = APPLIERS.preset("quick")
    everything = replace(APPLIERS.preset("full"), sizes=quick.sizes, min_rounds=2, max_rounds=2)
    summary, _, _ = ran(replace(APPLIERS, presets={"full": everything}), preset="full")

    assert {left.claim for left in summary.not_judged} == {
        claim.id for claim in APPLIERS.claims if claim.id.startswith(("per-database", "logical-clock"))
    }


# --- sabotage ---------------------------------------------------------------------------------------------------------


def stop_applying(lab, _load):
    """Stop RAID1's applier in the middle of the race."""
    lab.race.broken.add("raid1")


def write_no_pages(lab, _load):
    """Let RAID0 write no pages: its redo log only fills."""
    lab.race.owing.add("raid0")


def slow_down(lab, _load):
    """Let a disk of the RAID0 ignore its settings."""
    lab.arrays["raid0"].disks[0].asleep = True


def forget_the_backlog(lab, _load):
    """Make all replicas level by other means."""
    lab.race.written -= 5000


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (stop_applying, "each replica to apply 4500 rows did not come"),
        (write_no_pages, "the checkpoint age of raid0 was steady during the load"),
        (slow_down, "keeps its limits"),
        (forget_the_backlog, "was behind all the time"),
    ],
)
def test_a_race_that_was_none_is_never_judged(ran, trouble, reason):
    """An applier that stopped, a redo log that only fills, a disk without its limit, no backlog: UNKNOWN."""
    summary, record, _ = ran(KNOWN, preset="quick", meanwhile=trouble)
    doubts = record.doubts("mariadb", record.of("mariadb", "one"))

    assert reason in "; ".join([*doubts, *summary.environment.noise.why])
    assert {claim.verdict for claim in summary.claims} == {Verdict.UNKNOWN}
    assert summary.exit_code == 3


def test_a_backlog_that_is_gone_before_the_race_begins_is_a_doubt(ran):
    """There is no wait for rows that cannot come."""
    quick = KNOWN.preset("quick")
    short = replace(quick, sizes=quick.sizes | {"backlog": quick.sizes["warm"]})
    summary, record, _ = ran(replace(KNOWN, presets={"quick": short}), preset="quick")
    doubts = "; ".join(record.doubts("mariadb", record.of("mariadb", "one")))

    assert doubts and "rows applied with slow disks" not in doubts
    assert {claim.verdict for claim in summary.claims} == {Verdict.UNKNOWN}


def test_a_load_below_its_rate_does_not_count(ran, monkeypatch):
    """A client that skips every second change does not load the source as it says."""
    monkeypatch.setattr(
        "replication_lab.workloads.row_updates.Pace.rows_per_second", property(lambda pace: pace.rate / 2)
    )
    summary, record, _ = ran(KNOWN, preset="quick")

    assert "the source was loaded at the requested rate" in "; ".join(summary.environment.noise.why)
    assert not [m for m in record.measurements if m.counts]
    assert summary.exit_code == 3


def test_disks_have_no_limit_between_measurements(ran):
    """Replicas catch up before the next case on disks without limits."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))

    assert {disk.settings["write_us"] for array in labs[-1].arrays.values() for disk in array.disks} == {0}


def watched(pause=(0, 0), **lags):
    """Return two readings a second for 15 s: lags by replica, and 180 rows applied a second, except in the pause."""
    at = [n / 2 for n in range(30)]
    done = [round(180 * (moment - max(min(moment, pause[1]) - pause[0], 0))) for moment in at]
    applied = dict.fromkeys(("raid1", "raid0"), done)
    return Lag(None, {}, at=at, applied=applied, rows={name: list(map(rows, at)) for name, rows in lags.items()})


def sawtooth(least=0.0, rise=0.0):
    """Return a replica's lag: bursts of 300 rows, on a level that may rise."""
    return lambda moment: least + rise * moment + 300 * (moment * 0.7 % 1)


def falling_to_level(moment):
    return max(2000 - 300 * moment, 0) + sawtooth()(moment)


RISING = sawtooth(600, 60)


@pytest.mark.parametrize(
    ("lag", "caught_up", "tells", "never"),
    [
        (sawtooth(), 1.0, 1, 0),
        (sawtooth(90), 1.0, 0, 0),
        (RISING, 1.0, 1, 1),
        (sawtooth(1500, -60), 1.0, 1, 1),
        (RISING, None, 1, 1),
        (sawtooth(1500), None, 1, 1),
        (sawtooth(110), None, 0, 0),
        (lambda moment: 5000 - 100 * moment, None, 0, 0),
    ],
    ids=[
        "level",
        "a burst behind",
        "level once, and fell behind",
        "level once, fell behind, on its way again",
        "never level",
        "never level, nor further behind",
        "never level, within a burst of it",
        "still on its way",
    ],
)
def test_raid0_has_caught_up_when_it_stays_level(lag, caught_up, tells, never):
    """A burst may end level by chance; and a replica that had too little time has not failed."""
    found = judged(watched(raid0=lag, raid1=RISING), 190, 0.0, caught_up)

    assert (found["raid0_loads_that_tell"], found["raid0_never_caught_up"]) == (tells, never)


@pytest.mark.parametrize(
    ("lag", "tells", "kept_up"),
    [
        (RISING, 1, 0),
        (sawtooth(1500), 0, 0),
        (sawtooth(1500, 5), 0, 0),
        (lambda moment: 5000 - 100 * moment, 1, 1),
        (falling_to_level, 1, 1),
    ],
    ids=["rises", "neither", "hardly rises", "falls", "level"],
)
def test_raid1_keeps_up_when_its_lag_falls_or_is_gone(lag, tells, kept_up):
    """A lag that may rise or fall speaks neither for the claim nor against it."""
    found = judged(watched(raid0=sawtooth(), raid1=lag), 190, 0.0, 1.0)

    assert (found["raid1_loads_that_tell"], found["raid1_kept_up"]) == (tells, kept_up)


@pytest.mark.parametrize("pause", [(12, 15), (11, 13.5)])
def test_an_applier_that_stood_still_at_the_end_tells_nothing(pause):
    """Its lag rises by what arrives, whatever its disks can do."""
    found = judged(watched(pause, raid0=sawtooth(1500), raid1=RISING), 180, 0, 1.0)

    assert (found["raid0_loads_that_tell"], found["raid1_loads_that_tell"]) == (0, 0)


@pytest.mark.parametrize(
    ("pause", "longest"),
    [((0, 0), 0.5), ((5, 6), 1.5), ((4, 10.5), 7), ((0, 7), 7.5), ((7.5, 15), 7.5), ((0, 15), 15)],
)
def test_the_longest_pause_of_an_applier_is_found_wherever_it_lies(pause, longest):
    """Also at either end, where a slope and a count agree about half a rate."""
    assert watched(pause).longest_pause("raid1", 0, 15) == longest


def test_a_race_that_nobody_watched_is_an_error():
    """No trough is made up."""
    lag = watched(raid1=RISING)

    with pytest.raises(LabError, match="too busy to read the lag"):
        lag.least("raid1", 0.1, 0.4)


@pytest.mark.parametrize(
    ("trouble", "doubt"),
    [
        ("replication_lab.workloads.race.PAUSE_SHARE", "raid1 continued to apply catching up"),
        ("replication_lab.workloads.race.PAUSE_SHARE", "single continued to apply throughout"),
        ("replication_lab.workloads.race.BUSY", "the disks of raid1 were the limit throughout"),
    ],
)
def test_a_race_whose_applier_paused_or_whose_disks_rested_does_not_count(ran, monkeypatch, trouble, doubt):
    """By proofs that no replica can give: a pause below nought, disks busier than all the time."""
    monkeypatch.setattr(trouble, 0 if trouble.endswith("SHARE") else 1.5)
    summary, record, _ = ran(KNOWN, preset="quick")

    assert doubt in "; ".join(summary.environment.noise.why)
    assert not [m for m in record.measurements if m.counts]
    assert {claim.verdict for claim in summary.claims} == {Verdict.UNKNOWN}


# --- parts ------------------------------------------------------------------------------------------------------------


def test_a_slope_has_an_interval():
    """The typical rise; a single late reading does not bend it, and too few are refused."""
    found = slope(range(10), [3 * n for n in range(9)] + [500])

    assert found.low <= found.estimate == 3 <= found.high
    with pytest.raises(NoInterval):
        slope([1, 2], [1, 2])


@pytest.mark.parametrize("seconds", [8, 14.5])
@pytest.mark.parametrize("offset", [0, 0.5, 1, 1.5, 2])
def test_bursts_do_not_bend_a_rate(seconds, offset):
    """300 rows every 1.7 s are 176 a second wherever the bursts fall; too few readings tell nothing."""
    at = [n / 2 for n in range(30)]
    lag = Lag(None, {}, at=at, applied={"raid1": [300 * int((moment + offset) / 1.7) for moment in at]})

    assert lag.rate("raid1", 0, seconds) == pytest.approx(300 / 1.7, rel=0.07)
    assert lag.rate("raid1", 0, 1) is None


def test_who_applies_nothing_has_a_rate():
    """Nought, and not none: a race whose replica stands still says so."""
    assert Lag(None, {}, at=list(range(9)), applied={"raid1": [7] * 9}).rate("raid1", 0, 9) == 0


def test_a_mirror_is_counted_once(ran):
    """iostat shows a RAID1's writes once, though each of its disks does them."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))

    array = arrays.array(labs[-1], "raid1")
    before = look(array)
    labs[-1].arrays["raid1"].serve("write", 500)
    labs[-1].arrays["raid1"].pass_(10)

    assert work(array, before, look(array)).writes_per_second == pytest.approx(50, rel=0.05)


def test_the_lag_of_all_replicas_is_one_chart(undisturbed):
    """A line for each replica and a mark where the steady load begins; no chart without readings of a lag."""
    summary, record = undisturbed(KNOWN)
    (found,) = charts.lags("mariadb", summary, record)

    assert [line.label for line in found.lines] == ["raid0", "raid1", "single"]
    assert [band.label for band in found.bands] == ["steady load"]
    assert list(charts.lags("mysql-8.0", summary, record)) == []
