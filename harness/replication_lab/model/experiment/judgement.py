"""What is said of a claim on one engine: its verdict, or why it has none. summary.json has both as they are."""

import msgspec

from replication_lab.model.core.statistics import Interval
from replication_lab.model.core.verdict import Judgement


class ClaimJudgement(Judgement, frozen=True, kw_only=True):
    """A claim's verdict on one engine.

    `rounds_needed` is about the number of rounds after which an undecided claim would be decided, if spread and
    estimate stayed the same; null for decided claims. The claim holds if the whole interval is between `least` and
    `most`; null where that side is open, and both for a claim about a count.

    `settled` means that the planned rounds will not change the verdict. If the claim is `given_up`, they could have
    decided it, and cannot any more. `doubted` means that it is UNKNOWN for more reasons than missing figures.
    """

    id: str
    engine: str
    unit: str
    published: float | None
    predicted: float | None
    measured: float | None
    interval: Interval | None
    rounds: int
    rounds_needed: int | None = None
    least: float | None = None
    most: float | None = None
    settled: bool = False
    given_up: bool = False
    doubted: bool = False


class NotJudged(msgspec.Struct, frozen=True):
    """A claim without a verdict on an engine, and the reason; `case` is the missing case, if that is the reason.

    An engine that is the `reference` of a claim has no verdict of its own: the verdicts of the others include it.
    """

    claim: str
    engine: str
    reason: str
    case: str | None = None
    reference: bool = False
