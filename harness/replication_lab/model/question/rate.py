"""The rate of a load: the transactions that begin each second, no matter how long they take."""

import math

from replication_lab.model.core.proof import Proof
from replication_lab.model.core.quantity import RATE

# Transactions a second; no server does more.
SLOWEST, HIGHEST = 0.001, 1_000_000
# A load that began a smaller share of its planned transactions did not keep its rate.
KEPT = 0.95


def per_second(text: str) -> float:
    """Return transactions per second: 200 for "200/s" or "12000/min". Raise LabError for a text that is no rate."""
    return RATE.parse(text, "rate", SLOWEST, HIGHEST)


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
