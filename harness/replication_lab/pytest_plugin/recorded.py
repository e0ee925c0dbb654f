"""Runs of drills and experiments as results that a test can assert on."""

from pathlib import Path
from typing import Any

from replication_lab import experiments, runs
from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.model.drill.drill import Drill
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.experiment.judgement import ClaimJudgement
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.question.question import NAME
from replication_lab.pytest_plugin.answers import Answer, unknown
from replication_lab.report import DrillsSummary, ExperimentSummary, wording
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, folders

# pytest leaves the functions of this module out of what it shows of a failure.
__tracebackhide__ = True

SEED, TOPOLOGY = 7, "semisync"
# pytest shows 240 characters of an object.
SHOWN = 110


class Recorded:
    """A run on disk, with its summary and its report."""

    def __init__(self, folder: Path, summary: Any, policy: str):
        self.folder, self.summary, self._policy = folder, summary, policy

    @property
    def report(self) -> str:
        """The path of the run's report.html."""
        return folders.from_here(self.folder / "report.html")

    def _answer(self, is_so: bool | None, line: str, lines: list[str]) -> Answer:
        whole = "\n".join([line, *(f"  {each}" for each in lines if each), f"  report: {self.report}"])
        return Answer(is_so, f"{line}; report: {self.report}", whole, self._policy)

    def _as_expected(self) -> Answer:
        """Return whether all verdicts are the expected ones; unknown if one is not known."""
        code = self.summary.exit_code
        wrong = [row for row in self.summary.judged if row.changed or row.verdict is Verdict.UNKNOWN]
        lines = [*wording.warnings(self.summary), *(part for row in wrong for part in told(row))]
        return self._answer({0: True, 1: False}.get(code), wording.overall(self.summary), lines)


def told(row: Judgement) -> list[str]:
    """Return a verdict in lines: the sentence, the relation, what was measured, the reason."""
    found = wording.evidence(row) if isinstance(row, ClaimJudgement) else ""
    return [
        f"{wording.verdict(row)}: {row.sentence}",
        f"  {row.relation}",
        f"  {found}" if found else "",
        f"  {row.reason}",
    ]


# --- experiments ------------------------------------------------------------------------------------------------------


class Judged(Recorded):
    """The verdicts of a run: `holds(claim)`, `refuted(claim)`, `as_expected`; `summary` is that of summary.json."""

    summary: ExperimentSummary

    def __repr__(self) -> str:
        return f"<{self.summary.experiment}: {wording.overall(self.summary)}; report: {self.report}>"

    @property
    def as_expected(self) -> Answer:
        return self._as_expected()

    def holds(self, claim: str, engine: str = "") -> Answer:
        """Return whether a claim holds, on this engine or on all of the run; unknown if it is not decided."""
        return self._is(Verdict.HOLDS, claim, engine)

    def refuted(self, claim: str, engine: str = "") -> Answer:
        """Return whether a claim is refuted; a claim that is not decided is unknown, not refuted."""
        return self._is(Verdict.REFUTED, claim, engine)

    def claim(self, name: str, engine: str = "") -> list[ClaimJudgement]:
        """Return the rows of a claim, one for each engine; LabError for an unknown name."""
        rows = [row for row in self.summary.claims if name in (row.id, row.sentence) and engine in ("", row.engine)]
        known = [row.id for row in self.summary.claims] + [left.claim for left in self.summary.not_judged]
        if not rows and name not in known:
            raise unknown_name(f"claim of {self.summary.experiment}", name, dict.fromkeys(known))
        return rows

    def _is(self, asked: Verdict, name: str, engine: str) -> Answer:
        rows = self.claim(name, engine)
        verdicts = {row.verdict for row in rows}
        names = {name, *(row.id for row in rows)}
        left = [each for each in self.summary.not_judged if each.claim in names and engine in ("", each.engine)]
        # What holds on the other engines only does not hold on all of the run.
        left = [each for each in left if engine or not each.reference]
        lines = [*(part for row in rows for part in told(row)), *map(wording.why_not_judged, left)]
        worst = next((row for row in rows if row.verdict is not asked), None if left else rows[0])
        line = _line(worst) if worst else f"{name} was not judged on {', '.join(each.engine for each in left)}"
        if asked is Verdict.HOLDS and Verdict.REFUTED in verdicts:
            # Whatever else is unknown.
            return self._answer(False, line, lines)
        return self._answer(None if left or Verdict.UNKNOWN in verdicts else verdicts == {asked}, line, lines)


def _line(row: ClaimJudgement) -> str:
    name = row.id if len(row.id) <= SHOWN else f"{row.id[:SHOWN]}…"
    return f"{row.verdict}: {name} on {row.engine}, measured {wording.measured(row)}"


class Experiments:
    """The fixture lab_judge: the same question with the same arguments is run once a session."""

    def __init__(self, engine: str, policy: str, preset: str, noise: str, keeps: bool, tell: Tell):
        self._engine, self._policy, self._preset, self._noise = engine, policy, preset, noise
        self._keeps, self._tell = keeps, tell
        self._known: dict[tuple[Any, ...], tuple[Any, Judged]] = {}

    def __call__(
        self, asked: Experiment | str | Path, *, engine: str = "", preset: str = "", seed: int = SEED, noise: str = ""
    ) -> Judged:
        """Return the verdicts of an Experiment, of one by name, or of a question's YAML file.

        `engine` may name several servers with commas; they are measured together.
        """
        key = (id(asked) if isinstance(asked, Experiment) else str(asked), engine, preset, seed, noise)
        if key not in self._known:
            experiment = asked if isinstance(asked, Experiment) else experiments.named(asked)
            found = self._run(experiment, engine or self._engine, preset or self._preset, seed, noise)
            self._known[key] = asked, found
        return self._known[key][1]

    def _run(self, asked: Experiment, engine: str, preset: str, seed: int, noise: str) -> Judged:
        # A question's file decides its engines and its extent.
        servers = list(asked.engines) if asked.asked else [each for each in engine.split(",") if each]
        extent = NAME if asked.asked else preset
        request = RunRequest(asked, servers, extent, seed, noise or self._noise, self._keeps)
        folder, summary = runs.run(request, self._tell)
        self._tell(f"record and report: {folders.from_here(folder)}")
        runs.raise_interruption(summary)
        return Judged(folder, summary, self._policy)


# --- drills -----------------------------------------------------------------------------------------------------------


class Drilled(Recorded):
    """The result of a drill: its figures (`lost`, `rto_s`, or `["during.acknowledged"]`), and `as_expected`.

    A figure of a drill that is in doubt ends the test, as --lab-unknown says; `row` has what was recorded all the same.
    """

    summary: DrillsSummary

    def __init__(self, folder: Path, summary: DrillsSummary, policy: str):
        super().__init__(folder, summary, policy)
        (self.row,) = summary.drills

    def __repr__(self) -> str:
        what = f"drill {self.row.name} of {self.summary.topology}"
        return f"<{what}: {wording.overall(self.summary)}; report: {self.report}>"

    @property
    def figures(self) -> dict[str, float | str]:
        """All figures by name."""
        self._refuse_doubts("the figures")
        return self.row.figures

    @property
    def doubts(self) -> list[str]:
        return self.row.doubts

    @property
    def as_expected(self) -> Answer:
        return self._as_expected()

    def __getitem__(self, figure: str) -> Any:
        self._refuse_doubts(figure)
        refuse_unknown(f"figure of drill {self.row.name}", figure, self.row.figures)
        return self.row.figures[figure]

    def _refuse_doubts(self, what: str) -> None:
        if self.doubts:
            unknown(self._policy, f"{what} of drill {self.row.name}: {self.doubts[0]}\n  report: {self.report}")

    def __getattr__(self, figure: str) -> Any:
        if figure.startswith("_") or figure == "row":
            raise AttributeError(figure)
        if not self.doubts and figure not in self.row.figures:
            raise AttributeError(f"drill {self.row.name} has no figure {figure}; it has {', '.join(self.row.figures)}")
        return self[figure]


class Drills:
    """The fixture lab_drill: the same drill with the same arguments is run once a session."""

    def __init__(self, engine: str, policy: str, keeps: bool, tell: Tell):
        self._engine, self._policy, self._keeps, self._tell = engine, policy, keeps, tell
        self._known: dict[tuple[Any, ...], Drilled] = {}

    def __call__(
        self,
        drill: str | Path,
        topology: str = "",
        *,
        engine: str = "",
        seconds: float | None = None,
        seed: int = SEED,
    ) -> Drilled:
        """Return the result of a drill of a topology, by name, or from a YAML file whose key `topology` names it.

        `topology` of a name is semisync by default.
        """
        key = (str(drill), topology, engine, seconds, seed)
        if key not in self._known:
            self._known[key] = self._run(drill, topology, engine or self._engine, seconds, seed)
        return self._known[key]

    def _run(self, drill: str | Path, topology: str, engine: str, seconds: float | None, seed: int) -> Drilled:
        found = _drill(drill, topology, seconds)
        topology = found.topology
        server = engine or catalogue.default_engine(topology)
        folder, summary = runs.drill(topology, server, [found], seed, self._tell, keep=self._keeps)
        self._tell(f"record, ledger and report: {folders.from_here(folder)}")
        runs.raise_interruption(summary)
        return Drilled(folder, summary, self._policy)


def _drill(asked: str | Path, topology: str, seconds: float | None) -> Drill:
    path = Path(asked)
    if path.suffix not in experiments.QUESTIONS:
        (found,) = drill_set.chosen(topology or TOPOLOGY, str(asked), seconds)
        return found
    if topology:
        raise LabError(
            f"{asked} with topology {topology}",
            "only the file, with the key topology in it",
            "compare with docs/drills.md",
        )
    return drill_set.read(path).with_duration(seconds)
