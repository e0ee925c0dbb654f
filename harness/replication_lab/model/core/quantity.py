"""Durations, rates and counts as a user writes them, in options and in files: one grammar, and one form of errors."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replication_lab.model.core.errors import LabError

NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-z/]*)")
# All values from one number to another: 5..300ms.
SWEEP = re.compile(r"(\d+)\.\.(\d+)([a-z/]*)")
POINTS_OF_A_SWEEP = 6


@dataclass(frozen=True)
class WrittenQuantity:
    """A kind of number: how a user writes it, its size in each unit, and how an error shows a limit."""

    form: str
    units: dict[str, float]
    shown: Callable[[float], str]
    is_whole: bool = False

    def parse(self, text: str, what: str, low: float = 0, high: float = math.inf) -> float:
        """Return the number in its first unit. Raise LabError for another text; `what` is what the user calls it."""
        found = NUMBER.fullmatch(text.strip())
        value = float(found[1]) * self.units[found[2]] if found and found[2] in self.units else math.nan
        if not low <= value <= high or (self.is_whole and "." in text):
            limits = (
                f"from {self.shown(low)} to {self.shown(high)}" if high < math.inf else f"at least {self.shown(low)}"
            )
            raise LabError(f"{what} is {text!r}", f"{self.form}, {limits}")
        return value


def duration_text(seconds: float) -> str:
    """Return a duration in the largest unit that leaves no fraction: 90s, 2min, 500ms."""
    for unit in ("h", "min", "s", "ms"):
        count = seconds / SECONDS[unit]
        if count >= 1 and math.isclose(count, round(count)):
            return f"{round(count)}{unit}"
    return f"{seconds:g}s"


# A number without a unit is in seconds, or a second: so it was before there were units.
SECONDS = {"s": 1, "ms": 0.001, "min": 60, "h": 3600, "": 1}
DURATION = WrittenQuantity("a duration such as 30s, 500ms, 2min or 1h", SECONDS, duration_text)
# "/m" is the spelling of earlier releases.
PER_SECOND = {"/s": 1, "/min": 1 / 60, "/m": 1 / 60, "/h": 1 / 3600, "": 1}
RATE = WrittenQuantity("a rate such as 200/s or 12000/min", PER_SECOND, "{:.7g}/s".format)
COUNT = WrittenQuantity("a whole number", {"": 1}, "{:.0f}".format, is_whole=True)

# The keys of a file whose values are durations, by the size of their unit in seconds.
DURATIONS = {"seconds": 1, "at": 1, "before": 1, "after": 1, "think_ms": 0.001, "minutes": 60, "max_minutes": 60}


def values_of(text: str) -> list[str]:
    """Return the values in a text: `1,16` are two, `5..300ms` six in equal ratios from 5ms to 300ms."""
    return [value for part in text.split(",") for value in _swept(part)]


def _swept(part: str) -> list[str]:
    found = SWEEP.fullmatch(part)
    if not found:
        return [part]
    low, high, unit = int(found[1]), int(found[2]), found[3]
    if not 0 < low < high:
        raise LabError(f"{part} is not a sweep", "a smaller and a larger number above 0", "5..300ms")
    steps = range(POINTS_OF_A_SWEEP)
    numbers = [round(low * (high / low) ** (step / steps[-1])) for step in steps]
    return [f"{number}{unit}" for number in dict.fromkeys(numbers)]


def with_durations(document: Any, where: str) -> Any:
    """Return a document with each duration that has a unit as a number in its key's own unit; LabError for another."""
    if isinstance(document, list):
        return [with_durations(each, where) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        key: _number(key, value, where) if isinstance(value, str) and key in DURATIONS else with_durations(value, where)
        for key, value in document.items()
    }


def _number(key: str, text: str, where: str) -> float:
    found = DURATION.parse(text, f"{where}: {key}") / DURATIONS[key]
    return int(found) if found == int(found) else found
