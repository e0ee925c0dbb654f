"""Which claims a run is expected to decide."""

from replication_lab import experiments
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import why_undecidable
from replication_lab.world import catalogue


def decidable(name: str, preset: str, engine: str) -> list[str]:
    """Return the ids of the claims whose cases a preset measures, an engine supports, and its loads suffice for."""
    known = experiments.load(name)
    chosen = known.preset(preset)
    measured = {case.name: case for case in known.chosen(chosen)}
    return [
        claim.id
        for claim in known.claims
        if claim.engine in ("", engine)
        and not why_undecidable(chosen.undecidable, claim.id, engine)
        and _has_its_cases(claim, measured, engine)
    ]


def _has_its_cases(claim: Claim, measured: dict[str, Case], engine: str) -> bool:
    if engine in claim.relation.references or not set(claim.relation.cases) <= measured.keys():
        return False
    own = [case for server, case in claim.relation.measured_on(engine) if server == engine]
    return all(measured[case].needs <= catalogue.engines()[engine].features for case in own)
