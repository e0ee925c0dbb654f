"""What goes wrong behind the lab's back during a load ends in UNKNOWN with the reason, never in green."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.claim import Verdict
from harness.experiment import Preset
from harness.experiments.semisync_wan import LINK, experiment
from harness.faults.toxic import clear
from harness.runner import Run, Session
from harness.workloads.sequential_inserts import SequentialInserts
from harness.world.clock import wait_until
from harness.world.journal import Journal

CASE, CLAIM = "after-commit-85ms-1", "after-commit-one-client-per-round-trip"


@dataclass(frozen=True)
class Sabotaged:
    """A workload during which, once its clients have committed something, somebody else acts."""

    workload: SequentialInserts
    act: Any

    def run(self, lab, seed):
        saboteur = threading.Thread(target=self._strike, args=(lab,))
        saboteur.start()
        try:
            return self.workload.run(lab, seed)
        finally:
            saboteur.join()

    def _strike(self, lab):
        source = lab.server("source")
        before = source.value("SELECT COUNT(*) FROM lab.foo")
        wait_until(lambda: source.value("SELECT COUNT(*) FROM lab.foo") > before + 3, "rows of the load", 20)
        self.act(lab)


@pytest.fixture
def judged(loaded, tmp_path):
    """Two rounds of one case with somebody acting in each; the judgement of the claim about it, and the record."""

    def judge(act):
        preset = Preset("sabotage", min_rounds=2, max_rounds=2, sizes={"far_rows": 18})
        small = replace(
            experiment,
            cases=(experiment.case(CASE),),
            claims=tuple(claim for claim in experiment.claims if claim.id == CLAIM),
            presets={preset.name: preset},
            data=type(experiment.data)(),
            workload=lambda case, chosen: Sabotaged(SequentialInserts(rows=24), act),
        )
        run = Run(small, preset, ["mariadb"], 7, Journal("sabotage", runs=tmp_path), tell=lambda line: None)
        run.journal.write(run._opening())
        session = Session(run, loaded, "mariadb")
        session.open()
        session.rounds()
        (judgement,) = small.judge(run.journal.record)
        return judgement

    return judge


def test_without_sabotage_the_claim_is_not_doubted(judged):
    """The counter-check: the same two rounds left alone are decided or merely undecided, never doubtful."""
    judgement = judged(lambda lab: None)

    assert judgement.verdict is Verdict.HOLDS or "undecided" in judgement.reason or "quiet" in judgement.reason


def test_a_toxic_removed_during_the_load_is_unknown(judged):
    """The link's own round trip tells."""
    judgement = judged(lambda lab: clear(lab.wire(LINK)))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "link RTT was" in judgement.reason


def test_semisync_switched_off_during_the_load_is_unknown(judged):
    """Commits that nobody acknowledged are counted, though the status variable of the counters stands still."""
    judgement = judged(lambda lab: lab.server("source").set_semisync(False))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "acknowledged" in judgement.reason


def test_a_fall_back_to_asynchronous_is_unknown(judged):
    """The replica's IO thread stops; the source waits for its timeout and goes on alone."""

    def leave_alone(lab):
        lab.server("source").set_semisync(True, timeout_ms=300)
        lab.server("replica").stop_replica()

    judgement = judged(leave_alone)

    assert judgement.verdict is Verdict.UNKNOWN
    assert "not" in judgement.reason
