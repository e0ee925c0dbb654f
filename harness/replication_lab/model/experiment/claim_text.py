"""A claim as text, `throughput[clients=16] / throughput[clients=1] >= 4`: the relation that Python's operators make."""

import math
import re
from collections.abc import Iterator

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.drilled import KnownInDrills, WorstOfDrills
from replication_lab.model.experiment.quantities import BY_NAME, LAG, Quantity
from replication_lab.model.experiment.relations import Bounds
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import Values, named

# Figures of a drill.
OF_DRILLS = {"lost": "lost", "rto": "rto_s"}
CLAIM = re.compile(
    r"\s*(?P<over>[\w.]+)\[(?P<case>[^\]]*)\]"
    r"(?:\s*/\s*(?P<under>[\w.]+)\[(?P<base>[^\]]*)\])?"
    r"\s*(?P<op><=|>=)\s*(?P<bound>\d+(?:\.\d+)?)\s*"
)


def claims_of(question: Question) -> Iterator[Claim]:
    """Yield what the user claims. Raise LabError for a text that is no claim."""
    for number, text in enumerate(question.claims, 1):
        for part, (sentence, relation) in enumerate(parse_claim(text, question), 1):
            yield Claim(f"claim-{number}.{part}", sentence, relation)


def parse_claim(text: str, question: Question) -> list[tuple[str, Bounds | KnownInDrills]]:
    """Return the relations that a text states, each with its sentence.

    Settings that the brackets do not name have the same value on both sides; there is one claim for each combination
    of their values. Raise LabError for a text that is no claim, and for unknown names.
    """
    found = CLAIM.fullmatch(text)
    if not found:
        raise LabError(
            f"the claim {text!r} cannot be read",
            "QUANTITY[SETTING=VALUE] >= NUMBER, or QUANTITY[…] / QUANTITY[…] <= NUMBER",
            "--claim 'throughput[sync_binlog=1] / throughput[sync_binlog=0] >= 0.9'",
        )
    if found["under"] and "errors" in (found["over"], found["under"]):
        raise LabError(
            f"the claim {text!r} divides by the number of errors, which may be 0",
            "errors without a ratio",
            "--claim 'errors[…] <= 0.01'",
        )
    sides = [_side(found["over"], found["case"], question)]
    if found["under"]:
        sides.append(_side(found["under"], found["base"], question))
        if drilled := [name for name, _ in sides if name in OF_DRILLS]:
            raise LabError(
                f"the claim {text!r} uses {OF_DRILLS[drilled[0]]} in a ratio",
                "a bound on lost or rto, without a ratio",
                "--claim 'lost[topology=semisync] <= 0'",
            )
    fixed = {name for _, values in sides for name in values}
    for _, values in sides:
        if missing := sorted(fixed - values.keys()):
            raise LabError(
                f"the claim {text!r} sets {missing[0]} on one side of the ratio only",
                f"{missing[0]}=… on both sides, or on neither",
            )
    bound, at_least = float(found["bound"]), found["op"] == ">="
    claims: dict[str, Bounds | KnownInDrills] = {}
    for values in question.combinations():
        rest = {name: value for name, value in values.items() if name not in fixed}
        (name, case), *under = [(name, named({**values, **chosen})) for name, chosen in sides]
        said = f"{text.strip()}{f', with {named(rest)}' if rest else ''}"
        if name in OF_DRILLS:
            low, high = (bound, math.inf) if at_least else (-math.inf, bound)
            claims[said] = WorstOfDrills(case, OF_DRILLS[name], question.drills_of_a_case, low, high)
            continue
        of: Quantity = BY_NAME[name](case)
        for other, base in under:
            of = of / BY_NAME[other](base)
        claims[said] = of >= bound if at_least else of <= bound
    return list(claims.items())


def is_about_lag(claim: Claim) -> bool:
    """Return whether a claim is about how long replicas still applied after the load."""
    relation = claim.relation
    return isinstance(relation, Bounds) and any(figure.name == LAG for figure in relation.quantity.figures)


def _side(quantity: str, case: str, question: Question) -> tuple[str, Values]:
    if quantity in OF_DRILLS and not question.drill:
        raise LabError(
            f"{quantity} is measured by a drill, and no drill is given", "--drill NAME", "--drill lose-source"
        )
    known = [*BY_NAME, *(OF_DRILLS if question.drill else ())]
    refuse_unknown("quantity", quantity, known)
    values = {}
    for part in filter(None, (each.strip() for each in case.split(","))):
        name, _, value = part.partition("=")
        refuse_unknown("varied setting in the claim", name, question.axes)
        refuse_unknown(f"value of {name} in the claim", value, question.axes[name])
        if name in values:
            raise LabError(f"the case [{case}] of a claim names {name} twice", "each setting once", f"[{name}={value}]")
        values[name] = value
    return quantity, _of_one_case(values, case, question)


def _of_one_case(values: Values, text: str, question: Question) -> Values:
    """Return a claim's values, with all settings of the only given case that has them."""
    given = {name: value for name, value in values.items() if question.cases and name in question.cases[0]}
    if not given:
        return values
    fitting = [case for case in question.cases if given.items() <= case.items()]
    if len(fitting) != 1:
        raise LabError(
            f"the case [{text}] of a claim is {'each of several' if fitting else 'none'} of --case",
            f"the values of one: {'; '.join(map(named, question.cases))}",
            f"[{named(question.cases[0])}]",
        )
    return {**values, **fitting[0]}
