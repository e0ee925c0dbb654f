"""A figure of `make bench`."""

from statistics import median

import msgspec
from replication_lab.model.core.statistics import NoInterval, interval_of_mean

LEVEL = 0.95


class BenchFigure(msgspec.Struct, frozen=True):
    """One figure, all its readings, the 95 % interval of their mean (None if there is none), and its goal or None."""

    what: str
    unit: str
    value: float
    readings: list[float]
    goal: float | None
    interval: tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal


def figure(what: str, unit: str, readings: list[float], goal: float | None) -> BenchFigure:
    rounded = [round(each, 3) for each in readings]
    return BenchFigure(what, unit, round(median(readings), 3), rounded, goal, _interval(readings))


def _interval(readings: list[float]) -> tuple[float, float] | None:
    try:
        found = interval_of_mean(readings, LEVEL)
    except NoInterval:
        return None
    return round(found.low, 3), round(found.high, 3)
