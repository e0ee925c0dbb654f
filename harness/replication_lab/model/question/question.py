"""A user's question: topologies, settings to vary, the precision of the answer; the cases and effects that follow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.load import INSERTS
from replication_lab.model.question.setting import ENGINE, RATE, TOPOLOGY, Values, named
from replication_lab.model.question.sql_load import Transaction, transactions
from replication_lab.model.question.validation import refuse_bad_question

# The name of a question's experiment and of its only preset.
NAME = "ask"
DRILL_RUNS = 3


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The question, as a file and a record contain it.

    `vary` maps a setting to its values; all combinations are measured, on each topology. Of the settings in
    `cases`, only these combinations are. `settings` are the same in each case. `engine` is that of all cases,
    unless engines vary; if empty, each topology has its own default engine. A setting is `clients`, `rate`, `rtt`,
    `replication`, `wait_point`, `protocol` (of DRBD), `storage`, `disk` or a server's variable, such as
    `sync_binlog` (on every server) or `source.sync_binlog`. `baseline` holds the values that the others are
    compared with. `margin` is the largest relative error of a ratio to the baseline, at 95 %. `seconds` is the
    duration of each case's load in each round.
    `workload` is a load by name, or the user's file, a script with its own `script_options`; in its place
    `load_command` may be run in a container of `load_image`, by default the lab's own. `schema` and `init` are run
    before it. `cnf` are the files that the setting cnf names. `drill` is done for each case after the load,
    `drill_runs` times (0: DRILL_RUNS). With `ledger` its clients run the workload's transactions, each with a row
    by which it is counted. With `check` the load are these transactions, and what they read is checked for anomalies.
    """

    topologies: list[str]
    vary: dict[str, list[str]] = {}
    cases: list[Values] = []
    settings: Values = {}
    baseline: Values = {}
    claims: list[str] = []
    workload: str | GivenFile = INSERTS
    script_options: dict[str, str] = {}
    load_command: str | None = None
    load_image: str = ""
    schema: GivenFile | None = None
    init: GivenFile | None = None
    cnf: list[GivenFile] = []
    engine: str = ""
    seconds: int = 3
    margin: float = 0.1
    rounds: int = 12
    max_minutes: float = 0
    drill: str = ""
    drill_runs: int = 0
    ledger: bool = False
    check: bool = False

    def __post_init__(self) -> None:
        refuse_bad_question(self)

    @property
    def is_paced(self) -> bool:
        """Return whether the load has a rate of transactions, so that only latencies can differ between cases."""
        return RATE in self.vary or RATE in self.settings

    @property
    def counts(self) -> str:
        """Return the unit of the load: commits for inserts; else transactions, some of which may only read."""
        return "commit" if self.makes_inserts else "transaction"

    @property
    def makes_inserts(self) -> bool:
        """Return whether the load is that of the published test."""
        return self.workload == INSERTS and self.load_command is None

    @property
    def load_name(self) -> str:
        if self.load_command is not None:
            return f"`{self.load_command}`"
        return self.workload if isinstance(self.workload, str) else self.workload.name

    @property
    def engines(self) -> list[str]:
        """Return the engines that the question names; none if each topology uses its default."""
        return self.vary.get(ENGINE, [self.engine] if self.engine else [])

    def refuse_a_single_case(self) -> None:
        """Raise LabError if nothing is compared: one case, without a drill and without a claim about it."""
        if self.number_of_cases == 1 and not (self.drill or self.claims or self.check):
            case = [f"{name}={value}" for name, (value,) in self.axes.items()]
            raise LabError(
                f"the question has one case, {', '.join(case)}, and nothing to compare it with",
                "a setting with two values or more, or a claim about the case",
                f"--vary {case[0]},…",
            )

    @property
    def transactions(self) -> list[Transaction]:
        """Return the transactions of a workload in SQL; none for other workloads."""
        return transactions(self.workload) if isinstance(self.workload, GivenFile) else []

    @property
    def axes(self) -> dict[str, list[str]]:
        """Return each setting that differs between cases, with its values: first the topology if there are several.

        For a question about a drill the result may be empty.
        """
        only_drill = bool(self.drill) and not self.vary
        return {**({TOPOLOGY: self.topologies} if len(self.topologies) > 1 or only_drill else {}), **self.vary}

    @property
    def drills_of_a_case(self) -> int:
        return (self.drill_runs or DRILL_RUNS) if self.drill else 0

    @property
    def number_of_cases(self) -> int:
        given = self.cases[0] if self.cases else {}
        others = math.prod(len(values) for name, values in self.axes.items() if name not in given)
        return others * max(len(self.cases), 1)

    @property
    def base(self) -> Values:
        """Return the baseline; by default the first of the given cases, or the first value of the first setting."""
        first = next(iter(self.axes))
        return self.baseline or (self.cases[0] if self.cases else {first: self.axes[first][0]})

    def combinations(self) -> Iterator[Values]:
        """Yield the varied values of each case."""
        for each in product(*self.axes.values()):
            values = dict(zip(self.axes, each, strict=True))
            if not self.cases or {name: values[name] for name in self.cases[0]} in self.cases:
                yield values

    def trials(self) -> Iterator[Values]:
        """Yield the settings of a smallest set of cases in which every value occurs."""
        for number in range(max([*map(len, self.vary.values()), len(self.cases), 1] if self.vary else [1])):
            yield {
                **self.settings,
                **{name: values[min(number, len(values) - 1)] for name, values in self.vary.items()},
                **(self.cases[min(number, len(self.cases) - 1)] if self.cases else {}),
            }

    def effects(self) -> Iterator["Effect"]:
        """Yield each case with the one it is compared with, which has the baseline's values and is otherwise equal."""
        for values in self.combinations():
            base = {**values, **self.base}
            if base != values:
                yield Effect(values, base, ("p50",) if self.is_paced else ("throughput", "p50"))


@dataclass(frozen=True)
class Effect:
    """A case's values and those of the case that it is compared with; `known` names the figures that must be known."""

    values: Values
    base: Values
    known: tuple[str, ...]

    @property
    def case(self) -> str:
        return named(self.values)

    @property
    def baseline(self) -> str:
        return named(self.base)

    @property
    def changed(self) -> str:
        """Return what differs, such as "sync_binlog=1"."""
        return named({name: value for name, value in self.values.items() if value != self.base[name]})

    @property
    def replaced(self) -> str:
        """Return the baseline's value of what differs, such as "sync_binlog=0"."""
        return named({name: value for name, value in self.base.items() if value != self.values[name]})

    @property
    def claims(self) -> list[str]:
        """Return the ids of the claims that the effect is known, the most important one first."""
        return [self.claim(name) for name in self.known]

    def claim(self, name: str) -> str:
        return f"{name}:{self.case}"

    @property
    def common(self) -> str:
        """Return the varied settings that both sides share, such as "clients=16"; empty if nothing else is varied."""
        return named({name: value for name, value in self.values.items() if value == self.base[name]})
