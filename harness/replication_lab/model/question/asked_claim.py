"""A claim of a user's question, in the user's words."""

import re
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import Values, named

# The figures of the share of attempts that failed, and of how long replicas still applied after the load.
ERRORS, LAG = "errors", "lag_s"
QUANTITIES = {
    "throughput": "throughput",
    "p50": "latency_p50_ms",
    "p95": "latency_p95_ms",
    "p99": "latency_p99_ms",
    "p99.9": "latency_p999_ms",
    ERRORS: "errors",
    "lag": LAG,
}
# Figures of a drill.
OF_DRILLS = {"lost": "lost", "rto": "rto_s"}
CLAIM = re.compile(
    r"\s*(?P<over>[\w.]+)\[(?P<case>[^\]]*)\]"
    r"(?:\s*/\s*(?P<under>[\w.]+)\[(?P<base>[^\]]*)\])?"
    r"\s*(?P<op><=|>=)\s*(?P<bound>\d+(?:\.\d+)?)\s*"
)


@dataclass(frozen=True)
class AskedClaim:
    """A claim of the user, for one combination of the settings that it does not name.

    `over` and `under` are (figure, case) of the numerator and the denominator; `under` is empty if the claim is about
    no ratio. `at_least` is True for >= and False for <=.
    """

    sentence: str
    over: tuple[str, str]
    under: tuple[str, str] | None
    at_least: bool
    bound: float

    def is_about(self, figure: str) -> bool:
        return figure in [side[0] for side in (self.over, self.under) if side]


def parse_claim(text: str, question: Question) -> list[AskedClaim]:
    """Return the claims that a text such as `throughput[clients=16] / throughput[clients=1] >= 4` states.

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
    if found["under"] and ERRORS in (found["over"], found["under"]):
        raise LabError(
            f"the claim {text!r} divides by the number of errors, which may be 0",
            "errors without a ratio",
            "--claim 'errors[…] <= 0.01'",
        )
    sides = [_side(found["over"], found["case"], question)]
    if found["under"]:
        sides.append(_side(found["under"], found["base"], question))
        if drilled := [figure for figure, _ in sides if figure in OF_DRILLS.values()]:
            raise LabError(
                f"the claim {text!r} uses {drilled[0]} in a ratio",
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
    claims = {}
    for values in question.combinations():
        rest = {name: value for name, value in values.items() if name not in fixed}
        over, *under = [(figure, named({**values, **chosen})) for figure, chosen in sides]
        told = f"{text.strip()}{f', with {named(rest)}' if rest else ''}"
        claims[told] = AskedClaim(told, over, under[0] if under else None, found["op"] == ">=", float(found["bound"]))
    return list(claims.values())


def _side(quantity: str, case: str, question: Question) -> tuple[str, Values]:
    if quantity in OF_DRILLS and not question.drill:
        raise LabError(
            f"{quantity} is measured by a drill, and no drill is given", "--drill NAME", "--drill lose-source"
        )
    known = {**QUANTITIES, **(OF_DRILLS if question.drill else {})}
    if quantity not in known:
        raise unknown_name("quantity", quantity, known)
    values = {}
    for part in filter(None, (each.strip() for each in case.split(","))):
        name, _, value = part.partition("=")
        if name not in question.axes:
            raise unknown_name("varied setting in the claim", name, question.axes)
        if value not in question.axes[name]:
            raise unknown_name(f"value of {name} in the claim", value, question.axes[name])
        if name in values:
            raise LabError(f"the case [{case}] of a claim names {name} twice", "each setting once", f"[{name}={value}]")
        values[name] = value
    return known[quantity], values
