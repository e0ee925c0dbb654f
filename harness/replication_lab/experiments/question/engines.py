"""The engine of each case of a question; if they differ, a claim is judged on the engine of its case."""

from collections.abc import Mapping
from dataclasses import replace

from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.quantities import Figure, Quantity, Ratio
from replication_lab.model.experiment.relations import Bounds
from replication_lab.model.question.question import ENGINE, TOPOLOGY, Question, Values, named
from replication_lab.world import catalogue


def engine_of(values: Values, question: Question) -> str:
    """Return the engine of a case: its own, that of the question, or its topology's default one."""
    topology = values.get(TOPOLOGY, question.topologies[0])
    return values.get(ENGINE) or question.engine or catalogue.default_engine(topology)


def engines_of(question: Question) -> tuple[str, ...]:
    """Return the engines of all cases, each once."""
    return tuple(dict.fromkeys(engine_of(values, question) for values in question.combinations()))


def on_its_engine(claim: Claim, question: Question) -> Claim:
    """Return the claim for different engines: judged once, on the engine of the first case that it reads."""
    engines = {named(values): engine_of(values, question) for values in question.combinations()}
    if len(set(engines.values())) == 1:
        return claim
    own = engines[claim.relation.cases[0]]
    others = {case: engine for case, engine in engines.items() if engine != own}
    if not isinstance(claim.relation, Bounds):
        return replace(claim, engine=own)
    return replace(claim, engine=own, relation=replace(claim.relation, quantity=_read(claim.relation.quantity, others)))


def _read(quantity: Quantity, engines: Mapping[str, str]) -> Quantity:
    """Return the quantity with each case's figures read on the engine of that case."""
    if isinstance(quantity, Ratio):
        return Ratio(_read(quantity.numerator, engines), _read(quantity.denominator, engines))
    if isinstance(quantity, Figure) and quantity.case in engines:
        return replace(quantity, engine=engines[quantity.case])
    return quantity
