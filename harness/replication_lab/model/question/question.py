"""A user's question: topologies, settings to vary, the precision of the answer; the cases and effects that follow."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

import msgspec

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.variable import is_same
from replication_lab.model.question.command_load import refuse_bad_command
from replication_lab.model.question.disks import is_of_disks
from replication_lab.model.question.files import CNF, is_cnf, refuse_bad_files
from replication_lab.model.question.load import INSERTS, refuse_bad_load, statements_of
from replication_lab.model.question.options import refuse_no_setting, refuse_out_of_limits
from replication_lab.model.question.rate import per_second, refuse_too_few
from replication_lab.model.question.sql_load import Transaction, transactions

Values = dict[str, str]

# The name of a question's experiment and of its only preset.
NAME = "ask"

# The settings that are no server's variables, and the pattern of their values.
PROTOCOL = "protocol"
CHOICES = {
    "replication": ("none", "async", "semisync"),
    "wait_point": ("AFTER_SYNC", "AFTER_COMMIT"),
    PROTOCOL: ("A", "B", "C"),
}
CLIENTS, RATE, RTT, TOPOLOGY, ENGINE = "clients", "rate", "rtt", "topology", "engine"
# The settings that `lab ask` also has an option for.
OF_OPTIONS = (CLIENTS, RATE, RTT)
OWN = (CLIENTS, RATE, RTT, *CHOICES, TOPOLOGY, ENGINE)
MOST_CLIENTS = 512
MOST_CASES = 32
DRILL_RUNS = 3
# The smallest and the largest value of these fields.
LIMITS = {
    "seconds": (1, 3600),
    "rounds": (3, 100),
    "margin": (0.001, 1),
    "max_minutes": (0, 24 * 60),
    "drill_runs": (0, 50),
}

# A value goes into an SQL statement.
VARIABLE = re.compile(r"(?:(?P<node>[a-z][a-z0-9-]*)\.)?(?P<name>[a-z][a-z0-9_]*)")
VALUE = re.compile(r"[\w.:/+-]+")


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The question, as a file and a record contain it.

    `vary` maps a setting to its values; all combinations are measured, on each topology. `settings` are the same in
    each case. `engine` is that of all cases, unless engines vary; if empty, each topology has its own default engine.
    A setting is `clients`, `rate`, `rtt`, `replication`, `wait_point`, `protocol` (of DRBD), `storage`, `disk` or a
    server's variable, such as `sync_binlog` (on every server) or `source.sync_binlog`. `baseline` holds the values that
    the others are compared with. `margin` is the largest relative error of a ratio to the baseline, at 95 %. `seconds`
    is the duration of each case's load in each round.
    `workload` is a load by name, or the user's file; in its place `load_command` may be run in a container of
    `load_image`, by default the lab's own. `schema` and `init` are run before it. `cnf` are the files that the setting
    cnf names. `drill` is done for each case after the load, `drill_runs` times (0: DRILL_RUNS).
    With `ledger` its clients run the workload's transactions, each with a row by which it is counted.
    """

    topologies: list[str]
    vary: dict[str, list[str]] = {}
    settings: Values = {}
    baseline: Values = {}
    claims: list[str] = []
    workload: str | GivenFile = INSERTS
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

    def __post_init__(self) -> None:
        self._refuse_a_bad_extent()
        asked = {**self.vary, **{name: [value] for name, value in self.settings.items()}}
        for name, values in asked.items():
            refuse_bad_setting(name, values)
        if both := sorted(self.vary.keys() & self.settings.keys()):
            option = f" or --{both[0]}" if both[0] in OF_OPTIONS else ""
            raise LabError(
                f"{both[0]} is both varied and set", "one of the two", f"leave out --set {both[0]}=…{option}"
            )
        if self.number_of_cases > MOST_CASES:
            raise LabError(
                f"the question has {self.number_of_cases} cases", f"at most {MOST_CASES}", "give fewer values"
            )
        for name, value in self.baseline.items():
            if name not in self.axes:
                raise unknown_name("varied setting in the baseline", name, self.axes)
            if value not in self.axes[name]:
                raise unknown_name(f"value of {name} in the baseline", value, self.axes[name])
        refuse_bad_files(asked, self.cnf)
        for rate in self._values(RATE):
            refuse_too_few(rate, self.seconds)
        refuse_bad_load(self.workload)
        workload = self.workload if isinstance(self.workload, str) else self.workload.name
        refuse_bad_command(self.load_command, self.load_image, "" if workload == INSERTS else workload)
        for file in (self.schema, self.init):
            statements_of(file)

    def _values(self, name: str) -> list[str]:
        """Return the values of a setting, varied or the same in each case; an empty list if it is not given."""
        return self.vary.get(name) or [value for key, value in self.settings.items() if key == name]

    @property
    def is_paced(self) -> bool:
        """Return whether the load has a rate of transactions, so that only latencies can differ between cases."""
        return bool(self._values(RATE))

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

    def _refuse_a_bad_extent(self) -> None:
        if ENGINE in self.settings:
            raise LabError("engine is not a setting", "--engine ENGINE", f"--engine {self.settings[ENGINE]}")
        if self.engine and self.engine not in self.engines:
            raise LabError(
                f"the engine is {self.engine}, and engines vary: {', '.join(self.engines)}",
                "one of the two",
                f"leave out --engine {self.engine}",
            )
        if twice := [name for name in self.topologies if self.topologies.count(name) > 1]:
            raise LabError(f"topology {twice[0]} is named twice", "each topology once")
        if twice := [claim for claim in self.claims if self.claims.count(claim) > 1]:
            raise LabError(f"the claim {twice[0]!r} is given twice", "each claim once")
        if self.drill_runs and not self.drill:
            raise LabError(
                f"drill_runs is {self.drill_runs}, but no drill is given", "the name of a drill", "--drill lose-source"
            )
        if self.ledger:
            self._refuse_no_transactions()
        if not self.axes:
            raise LabError(
                "nothing is varied",
                "at least one --vary NAME=VALUE,VALUE, two topologies, or a drill",
                f"./lab ask {','.join(self.topologies)} --vary sync_binlog=0,1",
            )
        for name, (low, high) in LIMITS.items():
            refuse_out_of_limits(name, getattr(self, name), low, high)

    def refuse_a_single_case(self) -> None:
        """Raise LabError if nothing is compared: one case, without a drill and without a claim about it."""
        if self.number_of_cases == 1 and not self.drill and not self.claims:
            case = [f"{name}={value}" for name, (value,) in self.axes.items()]
            raise LabError(
                f"the question has one case, {', '.join(case)}, and nothing to compare it with",
                "a setting with two values or more, or a claim about the case",
                f"--vary {case[0]},…",
            )

    def _refuse_no_transactions(self) -> None:
        if not self.drill:
            raise LabError("--ledger without --drill: no fault could lose a row", "--drill NAME", "--drill lose-source")
        if isinstance(self.workload, str) or not self.workload.name.endswith(".sql"):
            raise LabError(
                f"--ledger with the load {self.load_name}, which is not a .sql file of transactions",
                "--workload FILE.sql; without --ledger the rows of the drill's own clients are counted",
                "leave out --ledger",
            )
        if not any(each.writes for each in self.transactions):
            raise LabError(
                f"no transaction of {self.load_name} writes",
                "at least one transaction that writes",
                "leave out --ledger",
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
        return math.prod(map(len, self.axes.values()))

    @property
    def base(self) -> Values:
        """Return the baseline; by default it is the first value of the first setting that differs."""
        first = next(iter(self.axes))
        return self.baseline or {first: self.axes[first][0]}

    def combinations(self) -> Iterator[Values]:
        """Yield the varied values of each case."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    def trials(self) -> Iterator[Values]:
        """Yield the settings of a smallest set of cases in which every value occurs."""
        for number in range(max(map(len, self.vary.values()), default=1)):
            yield {
                **self.settings,
                **{name: values[min(number, len(values) - 1)] for name, values in self.vary.items()},
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


def named(values: Mapping[str, str]) -> str:
    """Return the name of a case with these values."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def refuse_bad_setting(name: str, values: list[str]) -> None:
    """Raise LabError for an impossible setting, before anything starts."""
    if name == TOPOLOGY:
        raise LabError("topology is not a setting", "topologies as the argument", f"./lab ask {','.join(values)} …")
    refuse_no_setting(name, OWN)
    if not values:
        raise LabError(f"{name} has no value", "at least one", f"--vary {name}=VALUE,VALUE")
    if any(is_same_value(name, *pair) for pair in combinations(values, 2)):
        raise LabError(f"{name} has a value twice: {', '.join(values)}", "values that differ", f"--vary {name}=…")
    for value in values:
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown_name(name, value, CHOICES[name])
        if name == CLIENTS and not (value.isdecimal() and 1 <= int(value) <= MOST_CLIENTS):
            raise LabError(f"clients is {value!r}", f"a whole number from 1 to {MOST_CLIENTS}", "--vary clients=1,16")
        if name == RATE:
            per_second(value)
        if name not in OWN and not VALUE.fullmatch(value):
            raise LabError(
                f"{name} is {value!r}", "a number, ON, OFF or a word", f"--vary {name}=…, without quotes and spaces"
            )
    if name not in OWN and not VARIABLE.fullmatch(name):
        raise LabError(
            f"{name!r} is not a setting",
            f"{', '.join(OWN)}, {CNF}, a server's variable or NODE.VARIABLE",
            "--vary sync_binlog=0,1",
        )


def is_same_value(name: str, one: str, other: str) -> bool:
    """Return whether two values of a setting mean the same: 0 and OFF of a variable, 0 and 0ms of a round trip."""
    if one == other or (name == RTT and is_bare(one) and is_bare(other)):
        return True
    is_variable = name not in OWN and not is_cnf(name) and not is_of_disks(name)
    return (is_variable or name == CLIENTS) and is_same(one, other)


def is_bare(trip: str) -> bool:
    """Return whether a round trip means a link without a toxic."""
    return trip in ("0", "0ms", "none", "lan")


def on_which_node(name: str) -> tuple[str, str]:
    """Return (node, variable) of a setting such as "source.sync_binlog"; the node is empty for every server."""
    found = VARIABLE.fullmatch(name)
    return (found["node"] or "", found["name"]) if found else ("", name)
