"""A relation as text, the same as in a report: `throughput(far) / throughput(near) ≥ 0.9`."""

import re
from collections.abc import Iterator

from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.quantities import ErrorShare, Figure, Loops, PerRoundTrip, Quantity, Sum, Total
from replication_lab.model.experiment.relations import Bounds, NoneSeen, SomeSeen

NUMBER = r"\d+(?:\.\d+)?"
FIGURE = r"\w+\([^()]*\)"
# A figure, the sum of some, or the law clients/RTT.
TERM = rf"{FIGURE}|\((?:\d+/)?{FIGURE}(?: \+ {FIGURE})*\)"
BOUNDED = re.compile(
    rf"(?P<over>{TERM})(?: / (?P<under>{TERM}))? "
    rf"(?:(?P<sign>≤|<=|≥|>=) (?P<bound>{NUMBER})"
    rf"|in (?P<low>{NUMBER})–(?P<high>{NUMBER})"
    r"|known within ±(?P<margin>\d+) ?%)"
)
COUNTED = re.compile(
    r"(?P<quiet>quiet )?(?P<name>\w+)\((?P<case>[^()]*)\) "
    r"(?:= 0 in (?:≥|>=) (?P<least>\d+) (?P<trials>\w+)|> 0)"
)
PARTS = re.compile(r"(?P<name>\w+)\((?P<case>.*?)(?: of (?P<engine>.*?))?\)")


def parse_relation(text: str) -> Bounds | NoneSeen | SomeSeen:
    """Return the relation that a text states. Raise LabError for a text that states none.

    Figures have the names that a record has. `average_loops(case)` is `average_ms` divided by the time of the loop
    beside it, `(4/rtt_p50_ms(case))` the law for 4 clients. `quiet` before a count leaves noisy rounds out.
    """
    if found := COUNTED.fullmatch(text):
        count = Total(found["case"], found["name"], bool(found["quiet"]))
        return count.is_zero(found["trials"], int(found["least"])) if found["trials"] else count.is_positive()
    found = BOUNDED.fullmatch(text)
    if not found:
        raise LabError(
            f"the relation {text!r} cannot be read",
            "figures of cases with `≥ 0.9`, `in 0.95–1.05`, `known within ±10 %`, `= 0 in ≥ 30 commits` or `> 0`",
            "throughput(far) / throughput(near) ≥ 0.9",
        )
    quantity = _term(found["over"])
    if found["under"]:
        quantity = quantity / _term(found["under"])
    if found["margin"]:
        return quantity.known(within=int(found["margin"]) / 100)
    if found["low"]:
        return quantity.between(_number(found["low"]), _number(found["high"]))
    bound = _number(found["bound"])
    return quantity >= bound if found["sign"] in ("≥", ">=") else quantity <= bound


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _term(text: str) -> Quantity:
    clients, is_law, trip = text.strip("(").partition("/")
    (first, *others) = _figures(trip if is_law else text)
    if is_law:
        return PerRoundTrip(first.case, int(clients), first.name)
    return Sum((first, *others)) if others else first


def _figures(text: str) -> Iterator[Figure]:
    for found in PARTS.finditer(text):
        name, case, engine = found["name"], found["case"], found["engine"]
        if name.endswith("_loops"):
            yield Loops(case, f"{name.removesuffix('_loops')}_ms", engine)
        else:
            yield (ErrorShare if name == "errors" else Figure)(case, name, engine)
