"""Is a verdict of a drill that other programs may have caused UNKNOWN, and only such a verdict?"""

import msgspec
import pytest
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.drill_result import RATIOS, judge, possible
from replication_lab.model.drill.evidence import NoiseWhile
from replication_lab.runner.drill import DrillRequest, DrillRun

from tests.fakes.parts import LabOfNames
from tests.unit.synthetic_drill import GALERA, HISTORY, evidence, parsed

WHY = "other programs used 60% of the CPUs (limit 25%): backup 120% of a CPU"
QUIET = Noise(foreign_cpu=0.05, steal=0.0)
NOISY = Noise(foreign_cpu=0.6, steal=0.0, quiet=False, why=WHY)
BEFORE, DURING, AFTER = range(3)
HOLDS, REFUTED, UNKNOWN = Verdict.HOLDS, Verdict.REFUTED, Verdict.UNKNOWN


def parts(*noises):
    """Return the noise before, during and after the fault of the drill below."""
    ends = (0.0, 2.0, 5.0, 10.1)
    return [NoiseWhile(begin, end, noise) for begin, end, noise in zip(ends, ends[1:], noises, strict=False)]


def judged(figure, noises, **bound):
    """Return the judgement of an expectation about the drill of the other tests: ten commits, 0.1 s each."""
    what = msgspec.structs.replace(parsed(), expected=[Expectation("it is so", figure, **bound)])
    return judge(evidence(drill=what, noise=parts(*noises)), HISTORY).judgements[0]


@pytest.mark.parametrize("when", [BEFORE, DURING, AFTER])
@pytest.mark.parametrize(
    ("figure", "bound", "quiet", "noisy"),
    [
        ("latency_ratio.node1", {"at_most": 1.5}, HOLDS, UNKNOWN),
        ("latency_ratio", {"at_least": 1.5}, REFUTED, UNKNOWN),
        ("throughput_ratio", {"at_most": 2}, HOLDS, UNKNOWN),
        ("throughput_ratio", {"at_most": 0.1}, REFUTED, UNKNOWN),
        # Others may have lengthened it to 1 s.
        ("stall_s", {"at_least": 0.9}, HOLDS, UNKNOWN),
        ("rto_s.node1", {"at_most": 0.01}, REFUTED, UNKNOWN),
        # A time that is short enough on a noisy machine is so on a quiet one, too.
        ("stall_s", {"at_most": 2.5}, HOLDS, HOLDS),
        ("stall_s", {"at_least": 1.5}, REFUTED, REFUTED),
        # What was counted happened.
        ("lost", {"equals": 0}, HOLDS, HOLDS),
        ("acknowledged.node1", {"at_least": 10}, HOLDS, HOLDS),
        ("acknowledged.node1", {"at_most": 9}, REFUTED, REFUTED),
        # Clients that others held up write less: nothing may be on its way that is known to be lost.
        ("acknowledged.node1", {"at_least": 11}, REFUTED, UNKNOWN),
        ("lost", {"equals": 0, "expect": REFUTED, "because": "what is on its way is lost"}, HOLDS, UNKNOWN),
        ("acknowledged.node1", {"at_most": 9, "expect": REFUTED, "because": "it is more"}, REFUTED, REFUTED),
        ("view.node3", {"equals": "non-Primary"}, HOLDS, HOLDS),
    ],
)
def test_only_what_others_can_have_changed_is_unknown(when, figure, bound, quiet, noisy):
    """In whichever part of the load they worked; a ratio does not depend on what comes after the fault."""
    noises = [QUIET] * 3
    assert judged(figure, noises, **bound).verdict is quiet
    noises[when] = NOISY
    if figure.startswith(RATIOS) and when == AFTER:
        noisy = quiet
    found = judged(figure, noises, **bound)

    assert found.verdict is noisy
    assert ("noisy machine" in found.reason) == (noisy is UNKNOWN)
    assert found.measured is not None


def test_the_reason_names_when_and_who():
    """The noisiest part counts; what was measured is shown all the same."""
    found = judged("latency_ratio", [QUIET, NOISY, msgspec.structs.replace(NOISY, foreign_cpu=0.3)], at_most=1.5)

    assert found.reason.endswith(f"expected at most 1.5, but on a noisy machine: from 2.0 to 5.0 s {WHY}")
    assert found.measured == 1.0


@pytest.mark.parametrize(
    ("figure", "found", "expected"),
    [
        ("most_behind_s.node3", 3600.0, (3589.9, 3600.0)),
        ("app.recovered_s", 2.0, (0.0, 2.0)),
        ("app.during.p50_ms", 20_000.0, (9_900.0, 20_000.0)),
        ("app.during.success", 0.9, (0.9, 0.9)),
        ("during.acknowledged", 5.0, (5.0, 5.0)),
        # The name of a node is not a unit.
        ("during.db_s", 5.0, (5.0, 5.0)),
    ],
)
def test_others_lengthen_a_time_by_no_more_than_the_load_lasted(figure, found, expected):
    """Which was 10.1 s: a clock that is an hour slow is not their doing."""
    assert possible(figure, found, evidence(noise=parts(NOISY))) == pytest.approx(expected)
    assert possible(figure, found, evidence(noise=parts(QUIET))) == (found, found)


@pytest.mark.parametrize("figure", ["not_failed_over", "false_failovers", "left_to_do"])
def test_what_a_manager_does_on_a_noisy_machine_is_not_held_against_it(figure):
    """Its checks fail there and its acts come late: on a quiet machine it may have none of these."""
    assert possible(figure, 2, evidence(noise=parts(QUIET, NOISY, QUIET))) == (0.0, 2)
    assert possible(figure, 2, evidence(noise=parts(QUIET, QUIET, QUIET))) == (2, 2)


def test_a_record_without_noise_is_judged_as_before():
    """Older versions did not measure it."""
    assert judged("latency_ratio", [], at_most=1.5).verdict is HOLDS


def test_the_noise_is_read_from_one_moment_to_the_next(monkeypatch):
    """And told where there is any."""

    class Cluster(LabOfNames):
        """A lab that nothing is asked of."""

        topology = GALERA

    class Meter:
        """A meter whose second reading is noisy."""

        readings = 0

        def read(self):
            self.readings += 1
            return NOISY if self.readings == 2 else QUIET

        def restart(self):
            """Nothing is counted."""

    told, moments = [], iter([1.0, 4.0, 6.0])
    going = DrillRun(Cluster(), DrillRequest(parsed(), 7), told.append)
    going._noise = Meter()
    monkeypatch.setattr(going, "_time", lambda: next(moments))
    for _ in range(3):
        going._note_noise()

    assert [(each.begin, each.end, each.noise.quiet) for each in going.seen["noise"]] == [
        (0.0, 1.0, True),
        (1.0, 4.0, False),
        (4.0, 6.0, True),
    ]
    assert told == [f"  noisy: from 1.0 to 4.0 s {WHY}"]
