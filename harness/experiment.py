"""An experiment: one question, the cases it compares, and the claims that answer it."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from harness.claim import Claim, Expected, Judgement, Verdict, judge, why_not_applicable
from harness.errors import LabError, unknown_name
from harness.record import Record
from harness.stats import Plan


@dataclass(frozen=True)
class Case:
    """One setting of the experiment's variable. `needs` are engine features without which it cannot be had."""

    name: str
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Preset:
    """How much of an experiment is run: its rounds and the workload's sizes."""

    name: str
    min_rounds: int = 3
    max_rounds: int = 8
    sizes: dict[str, Any] = field(default_factory=dict)
    alpha: float = 0.05

    @property
    def plan(self) -> Plan:
        return Plan(self.min_rounds, self.max_rounds, self.alpha)


# --- the data beside an experiment: what was published, and what is expected ------------------------------------------


class PublishedRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure of a case in the literature."""

    case: str
    figure: str
    value: float
    unit: str = ""


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table in the literature and where it comes from."""

    source: str
    rows: list[PublishedRow] = []


class ClaimData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the literature says of a claim."""

    published: float | None = None


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict known for a claim on an engine. A reason is obligatory, and UNKNOWN can never be expected."""

    claim: str
    engine: str
    verdict: Verdict
    because: str

    def __post_init__(self) -> None:
        if self.verdict is Verdict.UNKNOWN:
            raise ValueError("expected HOLDS or REFUTED, found UNKNOWN, which is never good enough to be expected")


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The YAML file beside an experiment."""

    published: Published = Published(source="")
    claims: dict[str, ClaimData] = {}
    expected: list[Expectation] = []


def parse_data(text: str | bytes, name: str = "the experiment's data") -> Data:
    """Decode the YAML beside an experiment. Raises LabError that names the bad key and the nearest good one."""
    try:
        return msgspec.yaml.decode(text, type=Data)
    except msgspec.MsgspecError as error:
        raise _explained(str(error), name) from error


def _explained(error: str, name: str) -> LabError:
    unknown = re.search(r"unknown field `(.*?)`", error)
    if not unknown:
        return LabError(f"{name}: {error}", "the keys of docs/statistics.md, section expected verdicts")
    known = {key for kind in (Data, Published, PublishedRow, ClaimData, Expectation) for key in kind.__struct_fields__}
    return unknown_name(f"key in {name}", unknown[1], known)


# --- the experiment ---------------------------------------------------------------------------------------------------

Predict = Callable[[Case, dict[str, float]], dict[str, float]]


@dataclass(frozen=True)
class Experiment:
    """One question, answered by claims over cases.

    `workload` (case, preset -> workload), `prepare` (lab) and `arrange` (lab, case -> context of a watch) are the
    runner's and opaque here. `predict` maps a case and its measured figures
    (such as rtt_p50_ms) to the figures that theory gives for it. Raises LabError when its parts do not fit.
    """

    name: str
    question: str
    topology: str
    cases: tuple[Case, ...]
    claims: tuple[Claim, ...]
    presets: dict[str, Preset] = field(default_factory=lambda: {"quick": Preset("quick"), "full": Preset("full")})
    engines: tuple[str, ...] = ()
    workload: Any = None
    prepare: Any = None
    arrange: Any = None
    data: Data = field(default_factory=Data)
    predict: Predict | None = None

    def __post_init__(self) -> None:
        cases, claims = [case.name for case in self.cases], [claim.id for claim in self.claims]
        self._refuse_twins("case", cases)
        self._refuse_twins("claim", claims)
        for claim in self.claims:
            self._refuse_unknown(f"case in claim {claim.id!r} of", claim.relation.cases, cases)
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

    def expected(self, claim: str, engine: str) -> Expected:
        """The verdict known for this claim and engine; HOLDS unless the data say otherwise."""
        found = [known for known in self.data.expected if (known.claim, known.engine) == (claim, engine)]
        return Expected(found[-1].verdict, found[-1].because) if found else Expected()

    def judge(self, record: Record, engine: str | None = None) -> list[Judgement]:
        """Every applicable claim's verdict, engine by engine, by the plan that the record itself states."""
        plan = self.plan(record)
        return [
            judge(claim, record, name, plan, self.expected(claim.id, name))
            for name in self._engines(record, engine)
            for claim in self._applicable(record, name)
        ]

    def left_out(self, record: Record) -> list[tuple[str, str, str]]:
        """(claim id, engine, reason) of the claims that an engine cannot have."""
        return [
            (claim.id, engine, reason)
            for engine in record.engines
            for claim in self.claims
            if (reason := why_not_applicable(claim, record, engine))
        ]

    def decided(self, record: Record, engine: str) -> bool:
        """Whether no further round can change a verdict on this engine."""
        return all(judgement.settled for judgement in self.judge(record, engine))

    def plan(self, record: Record) -> Plan:
        """The plan that the run followed: its recorded settings, else its preset's."""
        preset = self.presets.get(record.run.preset) or Preset(record.run.preset)
        return Plan(
            **{key: record.run.settings.get(key, getattr(preset, key)) for key in ("min_rounds", "max_rounds", "alpha")}
        )

    def published(self, case: str) -> dict[str, float]:
        """The literature's figures of a case by name."""
        return {row.figure: row.value for row in self.data.published.rows if row.case == case}

    def predicted(self, case: str, figures: dict[str, float]) -> dict[str, float]:
        """Theory's figures of a case by name, given the measured ones."""
        return self.predict(self.case(case), figures) if self.predict else {}

    def _engines(self, record: Record, engine: str | None) -> Sequence[str]:
        return record.engines if engine is None else [engine]

    def _applicable(self, record: Record, engine: str) -> Iterator[Claim]:
        for claim in self.claims:
            if not why_not_applicable(claim, record, engine):
                known = self.data.claims.get(claim.id, ClaimData())
                yield claim if known.published is None else replace(claim, published=known.published)

    def _refuse_twins(self, kind: str, names: list[str]) -> None:
        if twins := sorted({name for name in names if names.count(name) > 1}):
            raise LabError(f"two {kind}s of experiment {self.name} are called {twins[0]!r}", "names that differ")

    def _refuse_unknown(self, what: str, names: Iterable[str], known: Iterable[str]) -> None:
        for name in names:
            if name not in known:
                raise unknown_name(f"{what} experiment {self.name}", name, known)


def schedule(cases: Sequence, rounds: int, seed: int) -> Iterator[tuple[int, list]]:
    """(round, cases in that round's order), rounds from 1; each round is shuffled on its own, by the seed.

    Interleaving spreads what drifts (a filling disk, a warming CPU) over all cases alike. A round's order depends on
    the seed and its number only, so a repeated round is the same round.
    """
    for number in range(1, rounds + 1):
        order = list(cases)
        random.Random(f"{seed}:{number}").shuffle(order)
        yield number, order
