"""The three verdicts, expected verdicts, and judgements; UNKNOWN never passes."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from replication_lab.model.core.exit_code import ExitCode


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
    """Return FINDING if a verdict is not the expected one, else UNKNOWN if one is, or if there is none, else GOOD."""
    return worst(
        ExitCode.FINDING if each.changed else ExitCode.UNKNOWN if each.verdict is Verdict.UNKNOWN else ExitCode.GOOD
        for each in judged
    )


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a whole by those of its parts; a whole without parts is UNKNOWN."""
    found = set(codes)
    of_parts = (code for code in (ExitCode.USAGE, ExitCode.FINDING, ExitCode.UNKNOWN) if code in found)
    return next(of_parts, ExitCode.GOOD if found else ExitCode.UNKNOWN)
