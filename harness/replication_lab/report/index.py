"""runs/index.html: all runs that were reported, the latest first, and the trend of each claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from replication_lab.model.core.verdict import Verdict
from replication_lab.report import forest, page, strips, svg, wording
from replication_lab.report.svg import Scale

# The latest runs of a claim that its trend shows. One run has no trend.
DRAWN, FEWEST = 24, 2


class IndexedVerdict(msgspec.Struct, frozen=True):
    """What the index reads of a claim or of an expectation; every version of summary.json has it."""

    verdict: Verdict
    changed: bool = False
    id: str = ""
    engine: str = ""
    sentence: str = ""
    measured: float | str | None = None


class DrillOf(msgspec.Struct, frozen=True):
    """What the index reads of a drill."""

    expectations: list[IndexedVerdict] = []


class Reported(msgspec.Struct, frozen=True):
    """What the index reads of a run's summary.json."""

    verdict: str
    started: str = ""
    engines: list[str] = []
    question: str = ""
    experiment: str = ""
    preset: str = ""
    topology: str = ""
    conditions: dict[str, str] = {}
    claims: list[IndexedVerdict] = []
    drills: list[DrillOf] = []

    @property
    def what(self) -> str:
        """The experiment, or the drills; the runs of one `place` can be compared."""
        return self.experiment or f"drills of {self.topology}"

    @property
    def asked(self) -> str:
        return self.question or "What happens to the writes when something breaks?"

    @property
    def place(self) -> tuple[str, ...]:
        changed = (f"{name} {value}" for name, value in sorted(self.conditions.items()))
        return (self.what, self.question, self.preset, *changed)

    @property
    def judged(self) -> list[IndexedVerdict]:
        return [*self.claims, *(each for drill in self.drills for each in drill.expectations)]


@dataclass(frozen=True)
class IndexedRun:
    """A run in the index: the folder's name, and what was reported, None where nothing was."""

    name: str
    reported: Reported | None

    @property
    def tone(self) -> str:
        return wording.TONES.get(self.reported.verdict, "doubt") if self.reported else "doubt"

    @property
    def said(self) -> str:
        said = {"AS_EXPECTED": "as expected", "CHANGED": "unexpected", "CRASHED": "crashed"}
        return said.get(self.reported.verdict, "unknown") if self.reported else "not reported"


@dataclass(frozen=True)
class Trend:
    """A claim over the runs that can be compared, the oldest first."""

    what: str
    engine: str
    sentence: str
    points: list[tuple[str, float, IndexedVerdict]]

    @property
    def latest(self) -> IndexedVerdict:
        return self.points[-1][2]

    @property
    def picture(self) -> str:
        """Return a line through the values of the runs, with a marker by verdict at each."""
        values = [value for _, value, _ in self.points]
        log = min(values) > 0
        low, high = svg.around(values, log, 0.2) if log else (min(values), max(values) or 1.0)
        up = Scale(low, high, strips.HEIGHT - 4, 4, log)
        across = Scale(0, max(len(values) - 1, 1), 6, strips.WIDTH - 6)
        places = [(across.at(number), up.at(value)) for number, value in enumerate(values)]
        marks = [
            (f"{name}: {value:.4g}, {judged.verdict}", forest.MARKERS[_tone(judged)], _tone(judged), x, y)
            for (name, value, judged), (x, y) in zip(self.points, places, strict=True)
        ]
        told = f"{len(values)} runs, from {values[0]:.4g} to {values[-1]:.4g}"
        return str(svg.elements().trend(svg.path(places), marks, told, strips.WIDTH, strips.HEIGHT))


def decode(summary: bytes) -> Reported | None:
    """Return what the index shows of a summary.json; None for one that cannot be read."""
    try:
        return msgspec.json.decode(summary, type=Reported)
    except msgspec.MsgspecError:
        return None


def render(runs: Sequence[IndexedRun]) -> str:
    """Return the page of all runs."""
    latest_first = sorted(runs, key=lambda run: run.name, reverse=True)
    return page.rendered("page_of_runs.html.j2", runs=latest_first, trends=list(trends(runs)))


def trends(runs: Iterable[IndexedRun]) -> Iterable[Trend]:
    """Yield each claim that several comparable runs measured."""
    series: dict[tuple[object, ...], list[tuple[str, float, IndexedVerdict]]] = {}
    for name, reported in [(run.name, run.reported) for run in sorted(runs, key=lambda run: run.name) if run.reported]:
        for claim in reported.claims:
            if isinstance(claim.measured, float | int):
                key = (f"{reported.what} ({reported.preset})", claim.engine, claim.id, reported.place)
                series.setdefault(key, []).append((name, float(claim.measured), claim))
    for (what, engine, *_), points in series.items():
        if len(points) >= FEWEST:
            yield Trend(str(what), str(engine), points[-1][2].sentence, points[-DRAWN:])


def _tone(judged: IndexedVerdict) -> str:
    if judged.changed:
        return "bad"
    return {Verdict.HOLDS: "good", Verdict.REFUTED: "note"}.get(judged.verdict, "doubt")
