"""The table of docs/predicting.md: points of kept records, predicted from other points and as they were measured."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import yaml
from replication_lab.predict import fit
from replication_lab.predict.pipelines import PIPELINES
from replication_lab.predict.points import LoadPoint, points_of
from replication_lab.predict.simulation import Simulated, simulated
from replication_lab.world.journal import read

from tests.kept_table import digits, table
from tests.records import golden

FITS = golden.HERE / "predicted.yaml"
SEED = 7
# An error that is called an agreement.
AGREES = 0.15


class Compared(NamedTuple):
    """A point that was measured, and what was predicted without it."""

    point: LoadPoint
    found: Simulated

    def error(self, figure: str) -> float:
        return getattr(self.found, figure) / getattr(self.point, figure) - 1


def points(name: str) -> list[LoadPoint]:
    with TemporaryDirectory() as folder:
        return points_of(read(golden.unpack(name, Path(folder)))[1])


@cache
def compared() -> list[Compared]:
    """Return every point that is predicted, in the order of predicted.yaml."""
    return [each for entry in yaml.safe_load(FITS.read_text()) for each in _of(entry)]


def _of(entry: dict) -> Iterator[Compared]:
    known, wanted = points(entry["from"]), points(entry["of"])
    fitted = [point for point in known if point.case in entry.get("fit", [point.case])]
    for system in {point.system.pipeline + point.system.engine: point.system for point in wanted}.values():
        own = [point for point in fitted if point.system == system]
        others = [point for point in wanted if point.system == system and point not in own]
        parameters = fit.fitted(own, fitted) if own and others else None
        for point in others if parameters else ():
            load, pipeline = point.load, PIPELINES[system.pipeline]
            yield Compared(point, simulated(fit.with_jitter(parameters, own, load), load, pipeline, SEED))


def predictions() -> str:
    """Return the table of all points, with the errors of each figure."""

    def rows() -> Iterator[tuple[str, ...]]:
        for each in compared():
            point, cells = each.point, []
            for figure in ("throughput", "p50_ms", "p99_ms"):
                error = each.error(figure)
                shown = f"{error:+.0%}".replace("-", "−")
                cells += [digits(getattr(point, figure)), f"**{shown}**" if abs(error) > AGREES else shown]
            where = f"{point.load.clients}, {point.load.rtt_ms:.0f} ms, {point.load.replicas}"
            yield point.system.pipeline, point.system.engine, f"`{point.case}`", where, *cells

    head = ("pipeline", "engine", "case", "clients, round trip, replicas", "commits/s", "error", "p50 ms", "error")
    return table((*head, "p99 ms", "error"), rows())
