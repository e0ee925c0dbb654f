"""The loads that a question may name, their rate, and when their transactions were answered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.core.proof import Proof
from replication_lab.model.core.quantity import RATE

INSERTS = "inserts"
# sysbench's scripts, and whether each transaction changes a row. Without bulk_insert: its events are no transactions.
SYSBENCH = {
    "oltp_delete": False,  # the row may be missing already
    "oltp_insert": True,
    "oltp_point_select": False,
    "oltp_read_only": False,
    "oltp_read_write": True,
    "oltp_update_index": True,
    "oltp_update_non_index": True,
    "oltp_write_only": True,
    "select_random_points": False,
    "select_random_ranges": False,
}
OTHER = "FILE.lua or FILE.sql"
# Bytes. The file becomes part of the record, which is read as a whole.
LARGEST = 16 << 20


@dataclass(frozen=True)
class Moments:
    """The times of a load in seconds of its own clock: its begin and end, each commit, and each attempt that was lost.

    `commits` are (when it was answered, its latency in ms).
    """

    begin: float
    end: float
    commits: Sequence[tuple[float, float]]
    lost: Sequence[float] = ()

    def earlier(self, seconds: float) -> "Moments":
        """Return the same times on a clock that is so many seconds behind."""
        moved = [(at - seconds, latency) for at, latency in self.commits]
        return Moments(self.begin - seconds, self.end - seconds, moved, [at - seconds for at in self.lost])


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
