"""The engines of a question that varies them: a claim is judged on the engine of its case."""

from collections.abc import Mapping
from dataclasses import replace

from replication_lab.model.claim import Claim
from replication_lab.model.quantities import Figure, Quantity, Ratio
from replication_lab.model.question import ENGINE, Question, named
from replication_lab.model.relations import Bounds


def on_its_engine(claim: Claim, question: Question) -> Claim:
    """Return the claim as it is judged where engines vary: once, on the engine of the first case that it reads."""
    if ENGINE not in question.vary:
        return claim
    engines = {named(values): values[ENGINE] for values in question.combinations()}
    own = engines[claim.relation.cases[0]]
    others = {case: engine for case, engine in engines.items() if engine != own}
    if not isinstance(claim.relation, Bounds):
        return replace(claim, engine=own)
    return replace(claim, engine=own, relation=replace(claim.relation, quantity=_read(claim.relation.quantity, others)))


def _read(quantity: Quantity, engines: Mapping[str, str]) -> Quantity:
    """Return the quantity with the figures of these cases read on their engines."""
    if isinstance(quantity, Ratio):
        return Ratio(_read(quantity.numerator, engines), _read(quantity.denominator, engines))
    if isinstance(quantity, Figure) and quantity.case in engines:
        return replace(quantity, engine=engines[quantity.case])
    return quantity
