"""When the transactions of a load were answered."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Moments:
    """The times of a load in seconds of its own clock: its begin and end, each commit, and each attempt that was lost.

    `commits` are (when it was answered, its latency in ms).
    """

    begin: float
    end: float
    commits: Sequence[tuple[float, float]]
    lost: Sequence[float] = ()
