"""The three verdicts; UNKNOWN is never green."""

from enum import StrEnum


class Verdict(StrEnum):
    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"
