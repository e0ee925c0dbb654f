"""Is the time of a load that only computes compared as on CPUs of equal speed?"""

import pytest
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.statistics import Plan
from replication_lab.model.core.verdict import Expected, Verdict
from replication_lab.model.experiment.claim import judge
from replication_lab.model.experiment.quantities import Figure, Loops
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record

from tests.unit.synthetic import claim, run

ARIA = Loops("aria", "average_ms")
# The same work, if it takes as much longer as the loop. The CPUs were half as fast in the second round, and two thirds
# as fast in the third.
SAME_WORK = ((30, 500), (61, 1000), (44, 750))


def measured(case, *values):
    """Return measurements of (time in ms, loop in microseconds), one a round."""
    return [
        Measurement(engine="mariadb", round=n, case=case, figures={"average_ms": ms}, noise=Noise(loop_us=loop))
        for n, (ms, loop) in enumerate(values, start=1)
    ]


def verdict(relation, of):
    return judge(claim(relation), of, "mariadb", Plan(3, 8), Expected()).verdict


def test_work_is_the_same_number_of_loops_on_a_slow_cpu():
    """Milliseconds decide nothing here; loops do."""
    of = Record([run(), *measured("aria", *SAME_WORK)])

    assert ARIA.series(of, "mariadb") == pytest.approx({1: 60, 2: 61, 3: 58.667}, rel=1e-3)
    assert (ARIA.label, ARIA.unit) == ("average_loops(aria)", "")
    assert verdict(ARIA.between(55, 65), of) is Verdict.HOLDS
    assert verdict(Figure("aria", "average_ms").between(25, 70), of) is Verdict.UNKNOWN


def test_twice_the_work_is_twice_as_many_loops():
    """A difference between servers stays one, however fast their CPUs were."""
    of = Record([run(), *measured("aria", *SAME_WORK), *measured("myisam", (30, 1000), (31, 1010), (14.5, 490))])
    ratio = ARIA / Loops("myisam", "average_ms")

    assert verdict(ratio >= 1.8, of) is Verdict.HOLDS
    assert verdict(ratio <= 1.8, of) is Verdict.REFUTED


def test_a_round_without_a_loop_is_left_out():
    """Loops of one round and milliseconds of another have no mean."""
    of = Record([run(), *measured("aria", (30, 500), (61, None), (44, 750))])

    assert ARIA.series(of, "mariadb") == pytest.approx({1: 60, 3: 58.667}, rel=1e-3)


def test_where_no_loop_was_measured_times_are_compared_as_recorded():
    """As where the engine runs on another machine."""
    of = Record([run(), *measured("aria", (30, None), (61, None))])

    assert ARIA.series(of, "mariadb") == {1: 30, 2: 61}
