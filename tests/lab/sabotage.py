"""Loads with interference, for the tests of how a run judges them."""

import threading
from dataclasses import dataclass, replace
from typing import Any

from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.runner.rounds import Run
from replication_lab.runner.session import EngineSession
from replication_lab.workloads.inserts import Inserts
from replication_lab.workloads.timed_script import TimedScript
from replication_lab.world.clock import wait_until
from replication_lab.world.journal import Journal

from tests.noise import ignoring_noise

ROUNDS = 2


@dataclass(frozen=True)
class Sabotaged:
    """A workload with an action of another party, once its clients have committed something."""

    workload: Inserts | TimedScript
    act: Any

    def run(self, lab, seed):
        saboteur = threading.Thread(target=self._strike, args=(lab,))
        saboteur.start()
        try:
            return self.workload.run(lab, seed)
        finally:
            saboteur.join()

    def _strike(self, lab):
        source = lab.node(lab.topology.source.name).server()
        before = source.value("SELECT COUNT(*) FROM lab.foo")
        wait_until(lambda: source.value("SELECT COUNT(*) FROM lab.foo") > before + 3, "rows of the load")
        self.act(lab)


FEW_ROWS = Inserts(rows=24)


def judgement_of(experiment: Experiment, claim: str, lab, act, folder, load: Inserts = FEW_ROWS):
    """Judge a claim about one lab's cases after two rounds with `act` in each load; return judgement and all doubts."""
    chosen = next(each for each in experiment.claims if each.id == claim)
    preset = Preset("sabotage", min_rounds=ROUNDS, max_rounds=ROUNDS)
    small = replace(
        experiment,
        cases=tuple(experiment.case(name) for name in chosen.relation.cases),
        claims=(chosen,),
        curves=(),
        presets={preset.name: preset},
        data=type(experiment.data)(),
        workload=lambda *_: Sabotaged(load, act),
    )
    request = RunRequest(small, ["mariadb"], preset.name, 7)
    run = Run(request, Journal("sabotage", runs=folder), tell=lambda line: None)
    run.journal.write(run.opening())
    session = EngineSession(run, {small.lab_of(small.cases[0]).on("mariadb"): lab}, "mariadb")
    session.open()
    # A busy machine is another guard's: these loads are judged for what was done to them.
    with ignoring_noise():
        run.rounds([session])
    (judgement,) = small.judge(run.journal.record)
    record = run.journal.record
    return judgement, "; ".join(record.doubts("mariadb", record.measurements))
