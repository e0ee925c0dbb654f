"""Claims, also as a user's text: a sentence, a relation over the record, and the verdict; in doubt UNKNOWN."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.statistics import NoInterval, Plan, highest_share
from replication_lab.model.core.verdict import TO_HOLD, Expected, Verdict
from replication_lab.model.experiment.drilled import KnownInDrills, WorstOfDrills
from replication_lab.model.experiment.judgement import ClaimJudgement, NotJudged
from replication_lab.model.experiment.quantities import BY_NAME, LAG, Quantity
from replication_lab.model.experiment.relations import Bounds, NoneSeen, SomeSeen
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import Values, named
from replication_lab.model.record.record import Record

# A claim of "never" has to state its number of trials if with that number the bad share could exceed this (at 95 %).
MOST_UNSAID = 0.2

Relation = Bounds | NoneSeen | SomeSeen | KnownInDrills
Prediction = Quantity | float | Callable[[Record, str], float | None] | None


@dataclass(frozen=True)
class Claim:
    """A sentence that can be refuted; `published` and `predicted` are in the unit that the relation measures.

    A `law` holds by theory under any conditions, so it is judged also under conditions other than the published ones.
    If `engine` is set, the claim is judged on that engine only; otherwise on each. If it `compares` with the reference
    of `lab run --against`, it is judged under any conditions, and beside the claims that the user names.
    """

    id: str
    sentence: str
    relation: Relation
    published: float | None = None
    predicted: Prediction = None
    law: bool = False
    engine: str = ""
    compares: bool = False

    def __post_init__(self) -> None:
        """Refuse a "never" over few trials without their number: none seen in 4 still allows for a share of 53 %."""
        if not isinstance(self.relation, NoneSeen):
            return
        needed = self.relation.at_least
        if highest_share(needed) > MOST_UNSAID and f"at least {needed}" not in self.sentence:
            raise LabError(
                f"claim {self.id}: with 0 in {needed} {self.relation.trials}, up to {highest_share(needed):.0%} of all "
                "may still be counterexamples",
                f"at_least with a share of at most {MOST_UNSAID:.0%}, or 'at least {needed}' in the claim's sentence",
            )


def claim(relation: Relation, sentence: str, **known: Any) -> Claim:
    """Return the claim that a relation holds, such as `throughput(far) / throughput(near) >= 0.9`, and that in words.

    `known` are other fields of Claim: its `id`, by default its number among those of the experiment; the value that was
    `published`, and the one that is `predicted`; whether it is a `law` that holds under any conditions.
    """
    if not isinstance(relation, Relation):
        raise LabError(
            f"the claim {sentence!r} has nothing that can be judged: {relation!r}",
            "a quantity that is compared with a number",
            "throughput(a) / throughput(b) >= 0.9",
        )
    return Claim(known.pop("id", ""), sentence, relation, **known)


def judge(claim: Claim, record: Record, engine: str, plan: Plan, expected: Expected = TO_HOLD) -> ClaimJudgement:
    """Judge one claim on one engine; never raise: an error in the judging gives UNKNOWN with that error."""
    undecided = ClaimJudgement(
        sentence=claim.sentence,
        relation=claim.relation.text,
        verdict=Verdict.UNKNOWN,
        expected=expected.verdict,
        because=expected.because,
        reason="not judged yet",
        id=claim.id,
        engine=engine,
        unit=claim.relation.unit,
        published=claim.published,
        predicted=None,
        measured=None,
        interval=None,
        rounds=0,
    )
    try:
        predicted = _predict(claim.predicted, record, engine)
        found = _decide(claim, replace(undecided, predicted=predicted), record, plan)
    except Exception as error:  # of any type: an error must not look like a decision
        reason = f"judging failed: {type(error).__name__}: {error}"
        return replace(undecided, reason=reason, settled=True, doubted=True)
    return replace(found, settled=found.settled or found.given_up or found.verdict is not Verdict.UNKNOWN)


def without_its_cases(claim: Claim, record: Record, engine: str) -> NotJudged | None:
    """Return why a case of the claim was not measured: the engine does not support it, or the preset omits it."""
    if engine in claim.relation.references:
        reason = f"{engine} is the reference of the comparison"
        return NotJudged(claim.id, engine, reason, claim.relation.cases[0], reference=True)
    for server, case in claim.relation.measured_on(engine):
        lab = record.lab(server)
        if server not in record.engines:
            reason = f"{server}, with which it is compared, is not part of this run"
            return NotJudged(claim.id, engine, reason, case)
        if lab and case in lab.not_applicable:
            return NotJudged(claim.id, engine, lab.not_applicable[case], case)
    return None


def _decide(claim: Claim, undecided: ClaimJudgement, record: Record, plan: Plan) -> ClaimJudgement:
    try:
        found = claim.relation.decide(undecided, record, plan)
    except NoInterval as error:
        found = replace(undecided, reason=f"{undecided.relation}: {error}")
    if doubts := _doubts(claim, record, found.engine):
        return replace(found, verdict=Verdict.UNKNOWN, reason=_shortened(doubts), settled=True, doubted=True)
    if found.verdict is Verdict.UNKNOWN and (stopped := record.stopped):
        return replace(found, reason=f"{stopped}; {found.reason}")
    return found


def _doubts(claim: Claim, record: Record, engine: str) -> list[str]:
    """Return the reasons to doubt the figures that a claim reads; reasons about the whole run only once."""
    counted = claim.relation.counted(record, engine)
    servers = dict.fromkeys([engine, *(server for server, _ in claim.relation.measured_on(engine))])
    told = [record.doubts(server, [m for m in counted if m.engine == server]) for server in servers]
    return list(dict.fromkeys(doubt for doubts in told for doubt in doubts))


def _shortened(doubts: list[str]) -> str:
    first, rest = doubts[:2], doubts[2:]
    return "; ".join(first) + (f" (and {len(rest)} more)" if rest else "")


def _predict(predicted: Prediction, record: Record, engine: str) -> float | None:
    if isinstance(predicted, Quantity):
        return predicted.typical(record, engine)
    found = predicted(record, engine) if callable(predicted) else predicted
    return found if found is None or math.isfinite(found) else None


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
