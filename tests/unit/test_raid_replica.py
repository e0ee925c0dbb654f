"""Do raid_replica and raid_appliers tell who catches up, and doubt races that were none?"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness import experiments
from harness.claim import Verdict
from harness.probes.disk_work import look, work
from harness.probes.lag import Lag
from harness.report import charts
from harness.stats import NoInterval, slope
from harness.workloads.race import Race, _steady
from harness.workloads.row_changes import RowChanges
from harness.world import arrays
from harness.world.sql import transactions_in

KNOWN = experiments.load("raid_replica")
MODEL = replace(KNOWN, data=type(KNOWN.data)())
APPLIERS = experiments.load("raid_appliers")
APPLIERS_MODEL = replace(APPLIERS, data=type(APPLIERS.data)())


def test_the_law_holds_in_the_model(ran):
    """RAID0 writes and applies twice as much, catches up under a load that RAID1 falls behind of, and rests then."""
    summary, _, _ = ran(MODEL, preset="quick")

    assert {claim.id: claim.verdict for claim in summary.claims} == {
        claim.id: Verdict.HOLDS for claim in summary.claims
    }
    assert len(summary.claims) == 8


def test_figures_stand_beside_law_and_literature(ran):
    """Writes a second: published, predicted and measured; the lag of both replicas over time for the chart."""
    summary, record, _ = ran(KNOWN, preset="quick")
    figures = next(case for case in summary.cases if case.name == "one").figures
    samples = record.measurements[0].samples

    assert (figures["raid0_writes_per_second"].published, figures["raid0_writes_per_second"].predicted) == (5399, 300)
    assert figures["raid0_writes_per_second"].value == pytest.approx(300, rel=0.05)
    assert len(samples["at_s"]) == len(samples["lag_raid0"]) == len(samples["lag_raid1"]) > 20


def test_the_load_is_between_what_both_apply(ran):
    """The rate is searched anew in each round, and reached."""
    _, record, _ = ran(KNOWN, preset="quick")

    for measured in record.measurements:
        figures = measured.figures
        assert figures["raid1_rows_per_second"] < figures["load_rows_per_second"] < figures["raid0_rows_per_second"]


def test_four_appliers_cost_the_disks_the_same(ran):
    """In the model only disks count: more appliers gain nothing."""
    summary, _, _ = ran(APPLIERS_MODEL, preset="quick")
    verdicts = {claim.id: claim.verdict for claim in summary.claims}

    assert verdicts["optimistic-one-database-gains-nothing"] is Verdict.HOLDS
    assert verdicts["optimistic-rescues-raid1"] is Verdict.REFUTED


def test_modes_of_other_engines_are_left_out(ran):
    """MariaDB has no appliers by database: neither green nor red."""
    summary, _, _ = ran(APPLIERS, preset="full")

    assert {left.claim for left in summary.not_applicable} == {
        claim.id for claim in APPLIERS.claims if claim.id.startswith(("per-database", "logical-clock"))
    }


# --- sabotage ---------------------------------------------------------------------------------------------------------


def stop_applying(lab, _load):
    """RAID1's applier stops in the middle of the race."""
    lab.race.broken.add("raid1")


def write_no_pages(lab, _load):
    """RAID0 owes its disks all pages: its redo log only fills."""
    lab.race.owing.add("raid0")


def slow_down(lab, _load):
    """A disk of the RAID0 does not act on what it is told."""
    lab.arrays["raid0"].disks[0].asleep = True


def forget_the_backlog(lab, _load):
    """Somebody else makes all replicas level."""
    lab.race.written -= 2500


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (stop_applying, "rows applied on each replica did not come"),
        (write_no_pages, "the redo log of raid0 is in its steady cycle"),
        (slow_down, "keeps its limits"),
        (forget_the_backlog, "was behind all the time"),
    ],
)
def test_a_race_that_was_none_is_never_judged(ran, trouble, reason):
    """An applier that stopped, a redo log that only fills, a disk without its limit, no backlog: UNKNOWN."""
    summary, record, _ = ran(KNOWN, preset="quick", meanwhile=trouble)
    doubts = "; ".join(record.doubts("mariadb", record.of("mariadb", "one")))

    assert reason in doubts
    assert {claim.verdict for claim in summary.claims} == {Verdict.UNKNOWN}
    assert summary.exit_code == 2


def test_a_load_below_its_rate_is_a_doubt(ran, monkeypatch):
    """A client that skips every second change does not load the source as it says."""
    monkeypatch.setattr("harness.workloads.row_changes.Pace.rows_per_second", property(lambda pace: pace.rate / 2))
    summary, record, _ = ran(KNOWN, preset="quick")

    assert "the source was loaded at the rate" in "; ".join(record.doubts("mariadb", record.of("mariadb", "one")))
    assert summary.exit_code == 2


def test_disks_have_no_limit_between_measurements(ran):
    """Replicas catch up before the next case by disks that are in nobody's way."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))

    assert {disk.settings["write_us"] for array in labs[-1].arrays.values() for disk in array.disks} == {0}


def watched(monkeypatch, raid0=0, raid1=25, pause=(0, 0)):
    """A lag of 15 s by two readings a second: RAID0's and RAID1's rises in rows a second, and who applied 180 a second
    but for a pause.
    """
    at = [n / 2 for n in range(30)]
    done = [round(180 * (moment - max(min(moment, pause[1]) - pause[0], 0))) for moment in at]
    rows = {"single": raid1, "raid1": raid1, "raid0": raid0}
    lag = Lag(None, {}, at=at, applied={"raid1": done})
    lag.rows = {name: [rise * n / 2 + 15 * (7 * n % 5) for n in range(30)] for name, rise in rows.items()}
    monkeypatch.setattr(Lag, "since", 15.0)
    return lag


def told(lag, caught_up=1.0):
    race = Race(RowChanges(), backlog=0, warm=0, window=0)
    return race._slopes(lag, SimpleNamespace(rate=190, rows_per_second=190), 0.0, caught_up)


def test_who_was_level_once_and_fell_behind_has_not_caught_up(monkeypatch):
    """A burst may end level by chance; at the end of the load RAID0 still is, or it has never caught up."""
    assert told(watched(monkeypatch))["raid0_never_caught_up"] == 0
    assert told(watched(monkeypatch, raid0=25))["raid0_never_caught_up"] == 1
    assert told(watched(monkeypatch), caught_up=None)["raid0_never_caught_up"] == 1


@pytest.mark.parametrize(("rise", "tells", "kept_up"), [(25, 1, 0), (0.1, 0, 0), (-25, 1, 1)])
def test_a_load_that_does_not_tell_whether_raid1_keeps_up_is_no_trial(monkeypatch, rise, tells, kept_up):
    """A slope that may be 0 speaks neither for the claim nor against it."""
    found = told(watched(monkeypatch, raid1=rise))

    assert (found["loads_that_tell"], found["raid1_kept_up"]) == (tells, kept_up)


@pytest.mark.parametrize(("pause", "ok"), [((0, 0), True), ((5, 6), True), ((5, 9.5), False)])
def test_a_typical_rate_of_a_replica_that_stood_still_is_doubted(monkeypatch, pause, ok):
    """A slope does not see a pause; the rows that were counted do."""
    lag = watched(monkeypatch, pause=pause)
    phase = SimpleNamespace(
        counted=lambda name: lag.counted(name, 0, 15), rows_per_second=lambda: {"raid1": lag.rate("raid1", 0, 15)}
    )

    assert _steady("raid1", phase).ok is ok


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gtids", "count"),
    [("", 0), ("0-1-42", 42), ("0-1-5,1-2-7", 12), ("3e1:1-5", 5), ("3e1:1-5:8,\n4f2:1", 7)],
)
def test_gtids_are_counted(gtids, count):
    """MariaDB's and MySQL's ways of writing them."""
    assert transactions_in(gtids) == count


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


def test_the_lag_of_all_replicas_is_one_chart(ran):
    """A line for each replica and a mark where the steady load begins; none where nobody read a lag."""
    _, record, _ = ran(KNOWN, preset="quick")
    drawn = charts.lags("mariadb", record)

    assert drawn.startswith("<svg") and all(word in drawn for word in ("raid0", "raid1", "single", "the steady load"))
    assert charts.lags("mysql-8.0", record) is None
