"""The three verdicts; UNKNOWN is never green."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


class Judged(Protocol):
    """A verdict beside the known one, of a claim or of a drill's expectation."""

    @property
    def verdict(self) -> Verdict: ...

    @property
    def changed(self) -> bool: ...


def exit_code(judged: Iterable[Judged]) -> int:
    """Return 1 when a verdict is not the expected one, else 2 when one is UNKNOWN or there is none at all, else 0."""
    judged = list(judged)
    if any(one.changed for one in judged):
        return 1
    return 2 if not judged or any(one.verdict is Verdict.UNKNOWN for one in judged) else 0
