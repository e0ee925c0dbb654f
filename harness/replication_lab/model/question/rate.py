"""The rate of a load: the transactions that begin each second, no matter how long they take."""

import math
import re

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof

ASKED = re.compile(r"(\d+(?:\.\d+)?)/(s|m)")
SECONDS = {"s": 1, "m": 60}
HIGHEST = 1_000_000
# A load that began a smaller share of its planned transactions did not keep its rate.
KEPT = 0.95
FORM = "a number of transactions a second or a minute, such as 200/s or 12000/m"


def per_second(text: str) -> float:
    """Return transactions per second: 200 for "200/s" or "12000/m". Raise LabError for a text that is no rate."""
    found = ASKED.fullmatch(text)
    if not found:
        raise LabError(f"rate is {text!r}", FORM, "--rate 200/s")
    rate = float(found[1]) / SECONDS[found[2]]
    if not 0 < rate <= HIGHEST:
        raise LabError(f"rate is {text!r}", f"more than 0/s, and at most {HIGHEST}/s", "--rate 200/s")
    return rate


def planned(rate: float, seconds: float) -> int:
    """Return how many transactions a load has: the first begins at once, each other one 1/rate after it."""
    # A rate per minute is no exact fraction of a second.
    return math.ceil(round(rate * seconds, 6))


def kept(rate: float, achieved: float) -> Proof:
    """Prove that a load kept its rate: transactions may begin late, but must begin before the load's end."""
    return Proof(
        what=f"the load kept {rate:g}/s",
        expected=f"at least {KEPT * rate:.5g}/s begun",
        found=f"{achieved:.5g}/s",
        # Never `slow`: a rate that these servers cannot keep is an answer.
        ok=achieved >= KEPT * rate,
    )
