"""A figure of `make bench`."""

from statistics import median

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One figure, all its readings, and its goal (None if there is none)."""

    what: str
    unit: str
    value: float
    readings: list[float]
    goal: float | None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal


def figure(what: str, unit: str, readings: list[float], goal: float | None) -> Figure:
    return Figure(what, unit, round(median(readings), 3), [round(each, 3) for each in readings], goal)
