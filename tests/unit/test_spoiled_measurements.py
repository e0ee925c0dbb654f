"""Is a measurement repeated that a noisy or slow machine spoiled, and does it decide nothing?"""

import pytest
from replication_lab.model.core.noise import ACCEPT, STOP
from replication_lab.model.core.verdict import Verdict
from replication_lab.report import wording
from replication_lab.runner.rounds import PATIENCE, PATIENCE_AT_ONCE

from tests.fakes import troubles
from tests.unit.synthetic_runs import at, order, tiny, verdicts


def test_a_noisy_measurement_is_taken_again_under_the_same_round(ran):
    """One noisy load costs one more measurement of the same case and round; the verdict stays."""
    summary, record, _ = ran(tiny(), noisy=lambda load: load == 1)

    assert order(record)[0] == order(record)[1]
    assert [m.noise.quiet for m in record.measurements[:2]] == [False, True]
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}


@pytest.mark.parametrize(("third_us", "slowest"), [(350.0, 1.0), (420.0, 1.2), (525.0, 1.5)])
def test_a_reader_is_told_how_much_the_speed_of_the_cpus_varied(ran, third_us, slowest):
    """Of two measurements of a case; both count, because each case may have been measured on slower CPUs."""
    summary, record, _ = ran(tiny(), loop_us=lambda load: third_us if load == 3 else 350.0)
    warned = [line for line in wording.warnings(summary) if "speed of the CPUs" in line]

    assert [m.noise.loop_us for m in record.measurements[:3]] == [350, 350, third_us]
    assert all(m.noise.quiet for m in record.measurements)
    assert summary.environment.noise.slowest_cpus == slowest
    assert [f"up to {slowest:.1f} times as long" in line for line in warned] == [True] * (slowest == 1.5)


def test_a_measurement_on_cpus_that_were_slower_than_usual_is_taken_again(ran):
    """By more than 15 % of the run's median: what a virtual machine's host takes is counted nowhere else."""
    _, record, _ = ran(tiny(least=3), loop_us=lambda load: 404.0 if load == 4 else 350.0)
    third, fourth, fifth = record.measurements[2:5]

    assert third.noise.quiet and not fourth.noise.quiet
    assert fourth.noise.why == "the CPUs were 15% slower than usual in this run (limit 15%)"
    assert (fourth.case, fourth.round) == (fifth.case, fifth.round) and fifth.noise.quiet


def test_cpus_that_stay_slower_are_the_usual_ones(ran):
    """Also those of a case whose own load always uses both halves of each core: its median counts after three."""
    _, record, _ = ran(tiny(least=5, most=5), loop_us=lambda load: 350.0 if load < 4 else 500.0)
    quiet = [m.noise.quiet for m in record.measurements]

    assert quiet[:5] == [True] * 3 + [False] * 2
    assert quiet[-3:] == [True] * 3


def test_a_load_that_failed_while_the_host_was_noisy_is_taken_again(ran):
    """A busy host may be the reason of a failed load as well."""
    summary, record, _ = ran(tiny(), noisy=lambda load: load == 1, meanwhile=at(1, troubles.fail_load))

    assert record.measurements[0].doubts and not record.measurements[0].noise.quiet
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}


@pytest.mark.parametrize("trouble", [troubles.be_too_slow, troubles.lengthen_links])
def test_a_proof_that_a_slow_moment_spoiled_is_made_again(ran, trouble):
    """The machine counts as quiet, and one moment of it was slow: as after noise, the same case is measured again."""

    def meanwhile(lab, load):
        {2: trouble, 3: troubles.shorten_links}.get(load, troubles.nothing)(lab, load)

    summary, record, world = ran(tiny(), meanwhile=meanwhile)
    first, second = record.measurements[1:3]

    assert (first.counts, second.counts) == (False, True)
    assert (first.round, first.case) == (second.round, second.case)
    assert summary.environment.noise.noisy == 1 and first.slow in summary.environment.noise.why[0]
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}
    assert len(world.waited) == 1


def test_a_round_without_such_a_proof_ends_no_claim(ran):
    """All three measurements of the first case in the first round were too slow: the other rounds decide."""
    slow = {1, 2, 3}
    summary, record, _ = ran(
        tiny(), meanwhile=lambda lab, load: troubles.be_too_slow(lab) if load in slow else troubles.nothing(lab, load)
    )

    assert [m.round for m in record.measurements if not m.counts] == [1, 1, 1]
    assert verdicts(summary) == {"costs-a-trip": Verdict.HOLDS}


def test_a_machine_that_stays_too_slow_for_a_proof_gives_unknown(ran):
    """Never green: without a proof nothing counts, and the verdict names what was not proved."""
    summary, record, _ = ran(tiny(), meanwhile=troubles.be_too_slow)
    [claim] = summary.claims

    assert not [m for m in record.measurements if m.counts]
    assert (claim.verdict, summary.exit_code) == (Verdict.UNKNOWN, 3)
    assert "expected five readings, found the host was too busy: 3 readings" in claim.reason


def test_what_was_lost_is_a_doubt_also_in_a_slow_moment(ran):
    """The link is slow, and semi-sync fell back: the second is not repeated away."""

    def both(lab, load):
        troubles.lengthen_links(lab, load)
        troubles.fall_back(lab, load)

    summary, record, _ = ran(tiny(), meanwhile=at(2, both))

    assert [m.counts for m in record.measurements[:2]] == [True, True]
    assert verdicts(summary) == {"costs-a-trip": Verdict.UNKNOWN}


def test_a_host_that_stays_noisy_gives_unknown(ran):
    """The verdict names the noise. Once the time for waiting is over, nothing is measured again."""
    summary, record, world = ran(tiny(least=2, most=9), noisy=lambda _load: True)
    waits = PATIENCE // PATIENCE_AT_ONCE

    # Eight rounds of nine: the last one alone is too few.
    assert world.loads == 2 * 8 + waits
    assert world.waited == [PATIENCE_AT_ONCE] * waits
    assert (summary.exit_code, record.end.why) == (3, "given up")
    assert "other programs used 60% of the CPUs" in summary.claims[0].reason


def test_a_run_waits_for_a_quiet_machine_before_it_measures_again(ran):
    """One noisy load is followed by one wait; a quiet run waits for nothing."""
    _, _, disturbed = ran(tiny(), noisy=lambda load: load == 1)
    _, _, quiet = ran(tiny())

    assert (len(disturbed.waited), quiet.waited) == (1, [])


def test_a_run_that_is_to_stop_at_noise_ends_there(ran):
    """The first noisy measurement is the last one; nothing is decided."""
    summary, record, world = ran(tiny(), noise=STOP, noisy=lambda load: load == 2)

    assert (world.loads, world.waited, record.end.why) == (2, [], "noisy")
    assert summary.exit_code == 3


def test_a_run_that_is_to_stop_at_noise_starts_no_other_engine(ran):
    """The engines are measured one after another."""
    _, record, world = ran(tiny(), engines=["mariadb", "mysql-5.5"], noise=STOP, noisy=lambda load: load == 2)

    assert (world.came_up, record.end.why) == (["mariadb"], "noisy")


def test_accepted_noise_gives_figures_and_never_a_verdict(ran):
    """Nothing is measured again, nor after the least number of rounds; each claim is UNKNOWN by the noise."""
    summary, record, world = ran(tiny(), noise=ACCEPT, noisy=lambda _load: True)
    claim = summary.claims[0]

    assert (world.loads, world.waited) == (2 * 2, [])
    assert all(measured.noise.accepted for measured in record.measurements)
    assert (claim.verdict, summary.exit_code) == (Verdict.UNKNOWN, 3)
    assert claim.measured is not None and "measured on a noisy machine" in claim.reason
