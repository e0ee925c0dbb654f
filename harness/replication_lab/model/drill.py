"""A drill: clients write, something breaks, it is mended, and what was promised is held against what happened.

Data only: one YAML file per drill (drills/TOPOLOGY/NAME.yaml). What came of one that was done is in drill_result.
"""

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from replication_lab.model.errors import LabError, unknown_name
from replication_lab.model.fault import FaultKind, Value, setting_names
from replication_lab.model.topology import Topology
from replication_lab.model.verdict import Verdict

# Whose options a drill may change: DRBD's disk and net, the file system's.
MOUNT = "mount"
OPTIONS = ("disk", "net", MOUNT)
# What the schedule's seed draws: up to so long a wait before the first fault, so that it does not always hit alike.
DRAWN_SECONDS = 0.5
# The keys, of a drill's file and of its record, below which there are strikes.
HOLD_STRIKES = frozenset({"drills", "drill", "acted", "steps", "step", "also"})


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a drill's file: an unknown key is an error."""


class Strike(_Strict, frozen=True, kw_only=True):
    """One fault on `targets`, `at` seconds into its step: nodes, or links, a node for all links that touch it.

    `settings` are those that its kind of fault takes. In a drill's file they are keys beside the others.
    """

    fault: str
    targets: list[str]
    settings: dict[str, Value] = {}
    at: float = 0.0

    def __str__(self) -> str:
        after = [f"after {self.at:g} s"] if self.at else []
        how = [value if isinstance(value, str) else f"{name} {value:+g}" for name, value in self.settings.items()]
        return " ".join([self.fault, *how, "on", ", ".join(self.targets), *after])


class Step(Strike, frozen=True, kw_only=True):
    """A fault that lasts `seconds`, and `also` others that strike in the same instant, or later, and end with it.

    `failover` names the node that takes the writes over just before the end; who did before comes back as its replica,
    and so does who is ahead of it; what only they had is discarded.
    """

    seconds: float
    also: list[Strike] = []
    failover: str = ""

    @property
    def strikes(self) -> list[Strike]:
        return [self, *self.also]

    def __str__(self) -> str:
        return " and ".join(Strike.__str__(strike) for strike in self.strikes)


class Waiting(_Strict, frozen=True):
    """How a semi-synchronous source waits: AFTER_SYNC or AFTER_COMMIT, and at most so many ms."""

    wait_point: str | None = None
    timeout_ms: int | None = None


class Expectation(_Strict, frozen=True):
    """A sentence about a figure of checkers or of the evidence, and the verdict that is known for it.

    One of `equals`, `at_least` and `at_most` is the relation. A verdict REFUTED needs its reason in `because`.
    """

    says: str
    figure: str
    equals: int | float | str | None = None
    at_least: int | float | None = None
    at_most: int | float | None = None
    expect: Verdict = Verdict.HOLDS
    because: str = ""

    @property
    def bound(self) -> str:
        words = (("", self.equals), ("at least ", self.at_least), ("at most ", self.at_most))
        return next(f"{word}{value}" for word, value in words if value is not None)

    def holds(self, found: float | str) -> bool:
        if self.equals is not None:
            return found == self.equals
        if isinstance(found, str):
            raise TypeError(f"{found!r} has no size")
        if self.at_least is not None:
            return found >= self.at_least
        return self.at_most is not None and found <= self.at_most


class Drill(_Strict, frozen=True):
    """What is done to a topology under load, and what is expected of it. Times are seconds.

    `clients` maps nodes to how many clients write there, `reads` such a node to the one on which its clients look for
    their rows after each statement, `think_ms` is what each takes for itself after one; `watchers` only read. `before`
    and `after` are the times without a fault. `settings` are global variables that every node has meanwhile,
    `semisync` is how the source waits, `serves` is the node that serves first where the topology leaves that open.
    `options` are those of DRBD on both machines meanwhile, by kind (disk, net), and of its file system (mount).
    `tolerates` names patterns of forbidden.yaml.
    """

    name: str
    topology: str
    about: str
    clients: dict[str, int]
    expected: list[Expectation]
    serves: str = ""
    steps: list[Step] = []
    before: float = 1.0
    after: float = 1.0
    hot_row: bool = False
    reads: dict[str, str] = {}
    think_ms: float = 0
    watchers: dict[str, int] = {}
    settings: dict[str, int | str] = {}
    semisync: Waiting | None = None
    options: dict[str, list[str]] = {}
    tolerates: list[str] = []

    @property
    def rearranges(self) -> bool:
        """Whether another node is the source afterwards, or one of them began to count anew."""
        return any(step.failover for step in self.steps)

    @property
    def strikes(self) -> Iterator[Strike]:
        return (strike for step in self.steps for strike in step.strikes)

    def ends_servers(self, kinds: Mapping[str, FaultKind]) -> bool:
        return any(kinds[strike.fault].ends_servers for strike in self.strikes)

    def moves_clocks(self, kinds: Mapping[str, FaultKind]) -> bool:
        return any(kinds[strike.fault].moves_clocks for strike in self.strikes)

    def lasting(self, seconds: float | None) -> "Drill":
        """The same drill with its faults (or its undisturbed load, where it has none) lasting so long."""
        if seconds is None:
            return self
        if not self.steps:
            return msgspec.structs.replace(self, before=seconds)
        steps = [msgspec.structs.replace(step, seconds=seconds) for step in self.steps]
        return msgspec.structs.replace(self, steps=steps)

    def wait_before(self, seed: int) -> float:
        """The time before the first fault, by the seed."""
        return round(self.before + random.Random(f"{seed}:{self.name}").uniform(0, DRAWN_SECONDS), 3)


def parse_drill(name: str, topology: Topology, text: str | bytes, kinds: Mapping[str, FaultKind]) -> Drill:
    """A Drill from its YAML; LabError names the key, fault, node, link or setting that does not fit."""
    where = f"harness/replication_lab/drills/{topology.name}/{name}.yaml"
    try:
        given = msgspec.yaml.decode(text)
        own = {"name": name, "topology": topology.name, **with_settings_apart(given, setting_names(kinds))}
        drill = msgspec.convert(own, Drill)
    except (msgspec.MsgspecError, TypeError) as error:
        raise LabError(f"{where}: {error}", "the keys of docs/drills.md", "./lab drill") from error
    for node in (
        *drill.clients,
        drill.serves,
        *drill.watchers,
        *drill.reads,
        *drill.reads.values(),
        *(step.failover for step in drill.steps),
    ):
        if node:
            topology.node(node)
    if drill.serves and not topology.manager and topology.replication != "group":
        raise LabError(f"{where}: serves, without a cluster manager that chooses", "no such key", "./lab drill")
    if drill.options and topology.replication != "drbd":
        raise LabError(f"{where}: options of DRBD in {topology.name}", "a topology of drbd", "./lab drill")
    for kind in drill.options:
        if kind not in OPTIONS:
            raise unknown_name(f"kind of options in {where}", kind, OPTIONS, "./lab drill")
    for strike in drill.strikes:
        if strike.fault not in kinds:
            raise unknown_name(f"fault in {where}", strike.fault, kinds, "./lab drill")
        kinds[strike.fault].check_settings(where, strike.settings, kinds)
        kinds[strike.fault].check_targets(where, topology, strike.targets)
    for expectation in drill.expected:
        _check_expectation(where, expectation)
    return drill


def with_settings_apart(found: Any, keys: Collection[str], unset: Collection[Value] = ()) -> Any:
    """What was read, with those `keys` of its strikes in a dict of their own, but for values that mean none.

    A drill's file has them beside the other keys. What is shaped otherwise is left to whoever converts it.
    """
    if isinstance(found, list):
        return [with_settings_apart(each, keys, unset) for each in found]
    if not isinstance(found, dict):
        return found
    own = {
        key: with_settings_apart(value, keys, unset) if key in HOLD_STRIKES else value for key, value in found.items()
    }
    settings = {key: own.pop(key) for key in found if key in keys} if "fault" in own else {}
    if settings:
        kept = {key: value for key, value in settings.items() if value not in unset}
        own["settings"] = {**own.get("settings", {}), **kept}
    return own


def _check_expectation(where: str, expected: Expectation) -> None:
    if [expected.equals, expected.at_least, expected.at_most].count(None) != 2:
        raise LabError(f"{where}: {expected.says!r} has not one relation", "one of equals, at_least, at_most")
    if expected.expect is Verdict.UNKNOWN or (expected.expect is Verdict.REFUTED and not expected.because):
        raise LabError(f"{where}: {expected.says!r} expects {expected.expect}", "HOLDS, or REFUTED with because")
