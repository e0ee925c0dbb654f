"""The three verdicts, expected verdicts, and judgements; UNKNOWN never passes."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """The verdict on a sentence; UNKNOWN if the figures do not decide it or are in doubt."""

    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Expected:
    """The expected verdict of a sentence, with the reason if it is not HOLDS."""

    verdict: Verdict = Verdict.HOLDS
    because: str = ""

    def __post_init__(self) -> None:
        if self.verdict is Verdict.UNKNOWN:
            raise ValueError("expected HOLDS or REFUTED, found UNKNOWN, which is never an expected verdict")
        if self.verdict is Verdict.REFUTED and not self.because:
            raise ValueError('expected a reason in the key "because", found REFUTED without one')


TO_HOLD = Expected()


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence with its verdict, of a claim or of a drill's expectation, as it is written to summary.json.

    `relation` is the comparison as text. `changed` is computed: the verdict is decided and is not the expected one,
    which fails a regression run. `because` says why a refutation is expected, `reason` how the verdict was reached or
    missed.
    """

    sentence: str
    relation: str
    verdict: Verdict
    expected: Verdict
    changed: bool = False
    because: str
    reason: str

    def __post_init__(self) -> None:
        changed = self.verdict is not Verdict.UNKNOWN and self.verdict is not self.expected
        msgspec.structs.force_setattr(self, "changed", changed)


def exit_code(judged: Iterable[Judgement]) -> int:
    """Return 1 when a verdict is not the expected one, else 2 when one is UNKNOWN or there is none at all, else 0."""
    return worst(1 if one.changed else 2 if one.verdict is Verdict.UNKNOWN else 0 for one in judged)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a whole by those of its parts: 3 a crash, 1 unexpected, 2 unknown or no part, else 0."""
    found = set(codes)
    return next((code for code in (3, 1, 2) if code in found), 0 if found else 2)
