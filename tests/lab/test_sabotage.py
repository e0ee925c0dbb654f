"""What goes wrong behind the lab's back during a load ends in UNKNOWN with the reason, never in green."""

import pytest
from replication_lab.experiments import load
from replication_lab.experiments.semisync_wan import LINK, RELAXED
from replication_lab.faults.toxic_calibration import clear
from replication_lab.model.core.verdict import Verdict
from replication_lab.witnesses.sampled import EVERY_SECONDS
from replication_lab.witnesses.statements_of_others import UNDISTURBED
from replication_lab.world import clock
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

from tests.lab.sabotage import judgement_of

EXPERIMENT = load("semisync_wan")

CLAIM = "after-commit-one-client-per-round-trip"


@pytest.fixture
def judged(loaded, tmp_path):
    """Return the judgement of a claim after two rounds of one case with interference in each, and all doubts."""
    return lambda act: judgement_of(EXPERIMENT, CLAIM, loaded, act, tmp_path)


# In `make test` the claims of this experiment are judged without a doubt, which shows the same.
@pytest.mark.long
@pytest.mark.alone
def test_without_sabotage_the_claim_is_not_doubted(judged):
    """The counter-check: the same two rounds left alone are decided or merely undecided, never doubtful."""
    judgement, _ = judged(lambda lab: None)

    assert judgement.verdict is Verdict.HOLDS or "undecided" in judgement.reason or "quiet" in judgement.reason


def test_a_toxic_removed_during_the_load_is_unknown(judged):
    """The link's own round trips tell."""
    judgement, doubts = judged(lambda lab: clear(lab.link(LINK)))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "of the load the round trip was shorter than 76.5 ms" in doubts


def test_semisync_switched_off_during_the_load_is_unknown(judged):
    """Commits without an acknowledgement are counted, though the status variable of the counters stands still."""
    judgement, doubts = judged(lambda lab: SemiSync(lab.node("source").server()).set(False))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "acknowledged" in doubts


def test_a_table_that_others_change_and_change_back_is_unknown(judged):
    """Between two readings, on the replica alone; the server has counted both statements."""

    def change(lab):
        lab.node("replica").server().another().execute(
            "SET SESSION sql_log_bin = 0",
            "ALTER TABLE lab.foo ADD COLUMN more INT",
            "ALTER TABLE lab.foo DROP COLUMN more",
        )

    judgement, doubts = judged(change)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{UNDISTURBED}: at " in doubts and "s replica counted " in doubts


def test_a_setting_of_the_experiment_that_others_change_for_a_moment_is_unknown(judged):
    """It has its value again before the load ends; no case of the experiment asks for it by name."""

    def change(lab):
        source = lab.node("source").server()
        for value in (1, RELAXED["sync_binlog"]):
            source.execute(f"SET GLOBAL sync_binlog = {value}")
            clock.pause(2 * EVERY_SECONDS)

    judgement, doubts = judged(change)

    assert judgement.verdict is Verdict.UNKNOWN
    assert "sync_binlog was 1 on source, not 0" in doubts


def test_a_fall_back_to_asynchronous_is_unknown(judged):
    """The replica's IO thread stops; the source waits for its timeout and goes on alone."""

    def leave_alone(lab):
        SemiSync(lab.node("source").server()).set(True, timeout_ms=300)
        Replica(lab.node("replica").server()).stop()

    judgement, doubts = judged(leave_alone)

    assert judgement.verdict is Verdict.UNKNOWN
    assert "acknowledged" in doubts
