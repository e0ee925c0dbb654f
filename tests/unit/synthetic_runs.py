"""A small experiment to run in the fake world, and troubles limited to one load of it."""

from replication_lab.experiments import load
from replication_lab.experiments.semisync_wan import arrange, prepare
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.published import Data
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.record.record import Record
from replication_lab.workloads.inserts import Inserts

from tests.fakes import troubles

semisync_wan = load("semisync_wan")

FAR = "after-commit-85ms-1"
COMMIT_COSTS_A_TRIP = Claim("costs-a-trip", "semi-sync is slower", throughput(FAR) / throughput("none") <= 0.1)


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
        **({"workload": lambda *_: Inserts(rows=8), "prepare": prepare, "arrange": arrange} | parts),
    )


def at(load: int, trouble: troubles.Meanwhile) -> troubles.Meanwhile:
    """Return the trouble limited to one load."""
    return lambda lab, number: trouble(lab, number) if number == load else None


def verdicts(summary) -> dict[str, Verdict]:
    """Return each claim's verdict."""
    return {claim.id: claim.verdict for claim in summary.claims}


def order(record: Record) -> list[tuple[int, str]]:
    """Return the round and the case of each measurement."""
    return [(m.round, m.case) for m in record.measurements]
