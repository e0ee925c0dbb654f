"""An experiment: one question, the cases it compares, and the claims that answer it."""

import random
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.statistics import Plan
from replication_lab.model.core.verdict import TO_HOLD, Expected, Verdict
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.claim import Claim, judge, without_its_cases
from replication_lab.model.experiment.compared_figures import FIGURES, THROUGHPUT
from replication_lab.model.experiment.curves import Curves
from replication_lab.model.experiment.judgement import ClaimJudgement, NotJudged
from replication_lab.model.experiment.measuring import LabT, ProofsOfNodes, Watch, Workload
from replication_lab.model.experiment.published import ClaimData, Data
from replication_lab.model.lab.condition import Condition, parse_condition
from replication_lab.model.lab.server_version import FAMILIES
from replication_lab.model.question.question import Question
from replication_lab.model.record.chosen import Against, Only
from replication_lab.model.record.record import Record

# Milliseconds. The laws need a round trip that is long compared with the servers' own time. The sizes of a run and the
# servers' timeouts need one that is short enough for some commits of every client.
LEAST_RTT_MS, MOST_RTT_MS = 10, 500


@dataclass(frozen=True)
class Preset:
    """The extent of a run: its rounds, the workload's sizes, and its cases (by name; all if none is given).

    `undecidable` maps the claims that it is not expected to decide to the reason, on every engine, or with an engine
    before the name (mysql-5.6:CLAIM) on that one. No round is spent on them, and they have no verdict unless the
    figures of the other claims' rounds suffice. `compose_env` are variables of the
    topology's Compose file that its sizes need (LAB_DISK_SIZE); the user's own values take precedence. `own_sizes` maps
    a family of servers (mariadb, mysql) to the sizes that it has instead.
    """

    name: str
    min_rounds: int = 3
    max_rounds: int = 8
    sizes: dict[str, Any] = field(default_factory=dict)
    alpha: float = 0.05
    cases: tuple[str, ...] = ()
    undecidable: dict[str, str] = field(default_factory=dict)
    compose_env: dict[str, str] = field(default_factory=dict)
    # After this many minutes no further round begins; 0: no limit.
    max_minutes: float = 0
    own_sizes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def measures(self, case: str) -> bool:
        return not self.cases or case in self.cases

    def on(self, family: str) -> "Preset":
        """Return the preset with the sizes that it has on servers of this family."""
        return replace(self, sizes=self.sizes | self.own_sizes.get(family, {}))

    @property
    def plan(self) -> Plan:
        return Plan(self.min_rounds, self.max_rounds, self.alpha)


@dataclass(frozen=True)
class ComparisonTable:
    """A table that compares engines: a row has the cases of one label, of which each engine may have several.

    `average`, `least` and `most` name the figures of a cell; `columns` maps the word for a column to its rows, a row's
    label to its case.
    """

    title: str
    average: str
    least: str
    most: str
    columns: dict[str, dict[str, str]]

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(case for rows in self.columns.values() for case in rows.values())


# --- the experiment ---------------------------------------------------------------------------------------------------

Arrange = Callable[[LabT, Case], AbstractContextManager[Watch]]
Predict = Callable[[Case, dict[str, float]], dict[str, float]]
Each = TypeVar("Each", bound=Hashable)


def _no_workload(case: Case, _preset: Preset) -> Workload[Any]:
    raise LabError(f"case {case.name} has no workload", "an experiment with a workload")


def _not_held(_lab: object, case: Case) -> ProofsOfNodes:
    raise LabError(f"case {case.name} cannot be held during a drill", "an experiment with hold")


def _not_arranged(_lab: object, case: Case) -> AbstractContextManager[Watch]:
    raise LabError(f"case {case.name} has no arrangement", "an experiment with arrange")


@dataclass(frozen=True)
class Experiment(Generic[LabT]):
    """One question, answered by claims over cases.

    The runner calls `workload`, `prepare`, `fill` (the data whose size the preset sets) and `arrange`; the type of lab
    that they act on is not used here. `hold` sets a case's variables on the lab of a drill and returns a function that
    proves them. `predict` maps a case and its measured figures (such as rtt_p50_ms) to the figures that theory gives.
    Raise LabError on creation if the parts do not fit together.

    If it is `watched`, each node is asked for its state once a second while a load runs. An experiment that measures
    what this would change is not.

    With `side_by_side` the labs of all engines run at once and share their rounds, so that claims may compare engines.
    `default_engines` are measured if no engine is named. `settings` are further variables of the servers to record.
    `disks` is the cost of a write and a flush on its disks, in words. `asked` is the user's question that the
    experiment was made from; it is kept in the record.

    `rtt_ms` is the published round trip of its links; `at(ms)` returns the same experiment with another round trip.
    `conditions` names those that differ from the published ones: then only laws are judged, and nothing is compared
    with published figures. `cnf` are the files that conditions name. `only` is the part that a run is restricted to.
    `against` is the server to compare with. `compared` are the figures by which a case is compared with another run or
    server.
    """

    name: str
    question: str
    topology: str
    cases: tuple[Case, ...]
    claims: tuple[Claim, ...]
    presets: dict[str, Preset] = field(default_factory=lambda: {"quick": Preset("quick"), "full": Preset("full")})
    engines: tuple[str, ...] = ()
    workload: Callable[[Case, Preset], Workload[LabT]] = _no_workload
    prepare: Callable[[LabT], None] | None = None
    fill: Callable[[LabT, Preset], None] | None = None
    arrange: Arrange[LabT] = _not_arranged
    hold: Callable[[LabT, Case], ProofsOfNodes] = _not_held
    data: Data = field(default_factory=Data)
    predict: Predict | None = None
    curves: tuple[Curves, ...] = ()
    comparison: ComparisonTable | None = None
    side_by_side: bool = False
    watched: bool = False
    default_engines: tuple[str, ...] = ("mariadb",)
    settings: tuple[str, ...] = ()
    disks: str = ""
    asked: Question | None = None
    rtt_ms: int = 0
    at: "Callable[[int], Experiment[LabT]] | None" = None
    conditions: dict[str, str] = field(default_factory=dict)
    cnf: tuple[GivenFile, ...] = ()
    only: Only = field(default_factory=Only)
    against: Against | None = None
    compared: tuple[str, ...] = (THROUGHPUT,)

    def __post_init__(self) -> None:
        cases, claims = [case.name for case in self.cases], [claim.id for claim in self.claims]
        self._reject_duplicates("case", cases)
        self._reject_duplicates("claim", claims)
        for claim in self.claims:
            self._refuse_unknown(f"case in claim {claim.id!r} of", claim.relation.cases, cases)
        for preset in self.presets.values():
            self._refuse_unknown(f"case in preset {preset.name} of", preset.cases, cases)
            undecidable = [name.rpartition(":")[2] for name in preset.undecidable]
            self._refuse_unknown(f"claim in preset {preset.name} of", undecidable, claims)
            self._refuse_unknown(f"family of servers in preset {preset.name} of", preset.own_sizes, FAMILIES)
            for own in preset.own_sizes.values():
                self._refuse_unknown(f"size in preset {preset.name} of", own, preset.sizes)
        for curves in self.curves:
            self._refuse_unknown(f"case in curves {curves.title!r} of", curves.cases, cases)
        if self.comparison:
            self._refuse_unknown("case in the comparison of", self.comparison.cases, cases)
        for case in self.cases:
            self._refuse_unknown(f"compared figure of case {case.name} of", self.compared_of(case), FIGURES)
        for claim in self.claims:
            self._refuse_unknown(f"engine in claim {claim.id!r} of", claim.relation.references, self.engines)
        self._refuse_unknown("case in the published rows of", [row.case for row in self.data.published.rows], cases)
        self._refuse_unknown("claim in the data of", self.data.claims, claims)
        self._refuse_unknown("claim in the expected verdicts of", [k.claim for k in self.data.expected], claims)
        self._refuse_unknown("engine in the expected verdicts of", [k.engine for k in self.data.expected], self.engines)

    def case(self, name: str) -> Case:
        self._refuse_unknown("case of", [name], [case.name for case in self.cases])
        return next(case for case in self.cases if case.name == name)

    def preset(self, name: str) -> Preset:
        self._refuse_unknown("preset of", [name], self.presets)
        return self.presets[name]

    def with_rtt(self, text: str) -> "Experiment[LabT]":
        """Return the experiment with the round trip in a text such as "40ms"; itself if that is its own one."""
        again = f"./lab run {self.name}"
        if self.at is None:
            raise LabError(
                f"--rtt {text}: the round trips of {self.name} are fixed", "an experiment that takes --rtt", again
            )
        asked = parse_condition(text, "--rtt")
        if asked != Condition(asked.trip_ms // 2, asked.trip_ms - asked.trip_ms // 2):
            raise LabError(
                f"--rtt {text} is more than a round trip", f"only a round trip, such as {again} --rtt 40ms", again
            )
        if not LEAST_RTT_MS <= asked.trip_ms <= MOST_RTT_MS:
            limits = f"{LEAST_RTT_MS} to {MOST_RTT_MS} ms, the range in which the laws and sizes of {self.name} hold"
            raise LabError(f"--rtt {text}: a round trip of {asked.trip_ms} ms", limits, f"{again} --rtt 40ms")
        if asked.trip_ms == self.rtt_ms:
            return self
        found = self.at(asked.trip_ms)
        laws = (claim.id for claim in found.claims if claim.law)
        data = self.data.under_other_conditions(laws, f"at {self.rtt_ms} ms")
        return replace(found, data=data, conditions={"rtt": asked.name})

    def with_conditions(self, changed: dict[str, str]) -> "Experiment[LabT]":
        """Return the experiment under changed conditions, such as variables on its servers."""
        laws = (claim.id for claim in self.claims if claim.law)
        data = self.data if self.conditions else self.data.under_other_conditions(laws, "with the published settings")
        return replace(self, data=data, conditions={**self.conditions, **changed})

    def lab_of(self, case: Case) -> LabSpec:
        return case.lab or LabSpec(self.topology)

    def compared_of(self, case: Case) -> tuple[str, ...]:
        """Return the figures by which a case is compared with another run or server."""
        return self.compared if case.compared is None else case.compared

    def chosen(self, preset: Preset) -> tuple[Case, ...]:
        """Return the cases that a preset measures."""
        return tuple(case for case in self.cases if preset.measures(case.name))

    def together(self, engines: Sequence[str]) -> list[list[str]]:
        """Return the engines in groups whose labs run at the same time."""
        return [list(engines)] if self.side_by_side else [[engine] for engine in engines]

    def labs(self, preset: Preset, engine: str) -> tuple[LabSpec, ...]:
        """Return the labs of a preset's cases with an engine, each once, in the order of the cases."""
        needed = map(self.lab_of, self.chosen(preset))
        return tuple(dict.fromkeys(lab.on(engine) for lab in needed if lab.engine in ("", engine)))

    def expected(self, claim: str, engine: str) -> Expected:
        """Return the verdict known for this claim and engine; HOLDS unless the data say otherwise."""
        found = [known for known in self.data.expected if (known.claim, known.engine) == (claim, engine)]
        return found[-1].expected if found else TO_HOLD

    def judge(self, record: Record, engine: str | None = None) -> list[ClaimJudgement]:
        """Judge claim by claim, engine by engine, with the plan that the record itself states."""
        return [found for found in self._outcomes(record, engine) if isinstance(found, ClaimJudgement)]

    def not_judged(self, record: Record) -> list[NotJudged]:
        """Return the claims without a verdict: not supported by an engine, omitted or undecidable by the preset."""
        return [found for found in self._outcomes(record) if isinstance(found, NotJudged)]

    def plan(self, record: Record) -> Plan:
        """Return the plan that the run followed: its recorded settings, else its preset's."""
        preset = self.presets.get(record.run.preset) or Preset(record.run.preset)
        return Plan(
            **{key: record.run.settings.get(key, getattr(preset, key)) for key in ("min_rounds", "max_rounds", "alpha")}
        )

    def published(self, case: str) -> dict[str, float]:
        """Return the literature's figures of a case by name."""
        return {row.figure: row.value for row in self.data.published.rows if row.case == case}

    def predicted(self, case: str, figures: dict[str, float]) -> dict[str, float]:
        """Return theory's figures of a case by name, given the measured ones."""
        return self.predict(self.case(case), figures) if self.predict else {}

    def _outcomes(self, record: Record, engine: str | None = None) -> Iterator[ClaimJudgement | NotJudged]:
        for name in record.engines if engine is None else [engine]:
            for claim in (claim for claim in self.claims if claim.engine in ("", name)):
                if not self.asks_for(claim):
                    yield NotJudged(claim.id, name, "left out by --claim")
                    continue
                not_judged = without_its_cases(claim, record, name) or self.not_compared(claim, name)
                yield not_judged or self._judged(claim, record, name)

    def asks_for(self, claim: Claim) -> bool:
        """Return whether a claim is to be judged.

        Without --claim all are. With it the named claims are, and also the comparisons of --against, unless the user
        names one of these.
        """
        named = self.only.claims
        if not named or claim.id in named:
            return True
        return claim.compares and not any(each.compares for each in self.claims if each.id in named)

    def not_compared(self, claim: Claim, engine: str) -> NotJudged | None:
        """Return why a claim is not judged under changed conditions: it is about the published ones, and no law."""
        if not self.conditions or claim.law or claim.compares:
            return None
        changed = ", ".join(f"{what} {value}" for what, value in self.conditions.items())
        return NotJudged(claim.id, engine, f"not compared: conditions changed ({changed})")

    def _judged(self, claim: Claim, record: Record, engine: str) -> ClaimJudgement | NotJudged:
        """Return the verdict; NotJudged if only more figures could decide it and the preset does not try to."""
        known = self.data.claims.get(claim.id, ClaimData())
        of = claim if known.published is None else replace(claim, published=known.published)
        found = judge(of, record, engine, self.plan(record), self.expected(claim.id, engine))
        reason = why_undecidable(record.run.undecidable, claim.id, engine)
        if reason is None or found.doubted or found.verdict is not Verdict.UNKNOWN:
            return found
        return NotJudged(claim.id, engine, f"{reason}{_estimate(found)}")

    def _reject_duplicates(self, kind: str, names: list[str]) -> None:
        if twins := sorted({name for name in names if names.count(name) > 1}):
            raise LabError(f"two {kind}s of experiment {self.name} are called {twins[0]!r}", "names that differ")

    def _refuse_unknown(self, what: str, names: Iterable[str], known: Collection[str]) -> None:
        for name in names:
            refuse_unknown(f"{what} experiment {self.name}", name, known, "./lab run --help")


def why_undecidable(listed: Mapping[str, str], claim: str, engine: str) -> str | None:
    """Return why a claim is not expected to be decided on an engine, by a preset's `undecidable`; None if it is."""
    return listed.get(claim) or listed.get(f"{engine}:{claim}")


def _estimate(found: ClaimJudgement) -> str:
    """Return what was measured of a claim without a verdict, as "; measured 1.02 [0.93–1.12]"; "" if nothing was."""
    if found.measured is None or found.interval is None:
        return ""
    shown = [f"{value:.3g}" for value in (found.measured, found.interval.low, found.interval.high)]
    return f"; measured {shown[0]} [{shown[1]}–{shown[2]}]"


def schedule(
    cases: Sequence[Each], rounds: int, seed: int, compared: Iterable[Collection[Each]] = ()
) -> Iterator[tuple[int, list[Each]]]:
    """Yield (round, cases in that round's order), rounds from 1; each round is shuffled on its own, by the seed.

    Interleaving spreads drifts (a filling disk, a warming CPU) evenly over all cases. Cases that are compared, directly
    or through a third one, follow each other in a shuffled order, so other programs that run for some seconds slow all
    of them. An order depends only on the seed and the round's number: a repeated round has the same one.
    """
    groups = _joined(cases, compared)
    for number in range(1, rounds + 1):
        dice, order = random.Random(f"{seed}:{number}"), [list(group) for group in groups]
        for group in order:
            dice.shuffle(group)
        dice.shuffle(order)
        yield number, [case for group in order for case in group]


def _joined(cases: Sequence[Each], compared: Iterable[Collection[Each]]) -> list[list[Each]]:
    """Return the cases in groups: two cases that are compared are in the same one."""
    groups = {case: [case] for case in cases}
    for one, *others in (known for each in compared if (known := [case for case in each if case in groups])):
        for other in others:
            if groups[other] is not groups[one]:
                groups[one].extend(groups[other])
                groups |= dict.fromkeys(groups[other], groups[one])
    return list({id(group): group for group in groups.values()}.values())
