"""A drill: clients write, something breaks, it is mended, and what was promised is held against what happened.

Data only: one YAML file per drill (drills/TOPOLOGY/NAME.yaml). What came of one that was done is in drill_result.
"""

import random
from collections.abc import Sequence

import msgspec

from replication_lab.model.errors import LabError, unknown_name
from replication_lab.model.topology import Topology
from replication_lab.model.verdict import Verdict

# The faults that a step may name, and what each acts on.
FAULTS = {
    "kill": "nodes",
    "stop": "nodes",
    "restart": "nodes",
    "pause": "nodes",
    "cpu": "nodes",
    "memory": "nodes",
    "clock": "nodes",
    "disk-slow": "nodes",
    "disk-full": "nodes",
    "disk-fail": "nodes",
    "drbd-disk-fail": "nodes",
    "drbd-split-brain": "nodes",
    "power-cut": "nodes",
    "cut": "links",
    "flap": "links",
    "toxic": "links",
}
# Whose options a drill may change: DRBD's disk and net, the file system's.
MOUNT = "mount"
OPTIONS = ("disk", "net", MOUNT)
# After these a server counts anew.
ENDING = frozenset({"kill", "stop", "restart", "power-cut"})
# Of machines whose disk DRBD replicates; the last two where nobody manages them, who would act by himself.
OF_DRBD = frozenset({"drbd-disk-fail", "drbd-split-brain", "power-cut"})
UNMANAGED = frozenset({"drbd-split-brain", "power-cut"})
# What the schedule's seed draws: up to so long a wait before the first fault, so that it does not always hit alike.
DRAWN_SECONDS = 0.5


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a drill's file: an unknown key is an error."""


class Strike(_Strict, frozen=True, kw_only=True):
    """One fault on `targets`, `at` seconds into its step: nodes, or links, a node for all links that touch it.

    `skew` is by how many seconds a clock goes wrong; ahead where it is positive.
    """

    fault: str
    targets: list[str]
    toxic: str = ""
    skew: int = 0
    at: float = 0.0

    def __str__(self) -> str:
        after = [f"after {self.at:g} s"] if self.at else []
        how = [self.toxic] if self.toxic else [f"{self.skew:+d} s"] if self.skew else []
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
        return found >= self.at_least if self.at_least is not None else found <= self.at_most


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
    def ends_servers(self) -> bool:
        return any(strike.fault in ENDING for step in self.steps for strike in step.strikes)

    @property
    def moves_clocks(self) -> bool:
        return any(strike.fault == "clock" for step in self.steps for strike in step.strikes)

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


def parse_drill(name: str, topology: Topology, text: str | bytes, toxics: Sequence[str]) -> Drill:
    """A Drill from its YAML; LabError names the key, fault, node, link or toxic that does not fit."""
    where = f"harness/replication_lab/drills/{topology.name}/{name}.yaml"
    try:
        given = msgspec.yaml.decode(text)
        drill = msgspec.convert({"name": name, "topology": topology.name, **given}, Drill)
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
    for step in drill.steps:
        for strike in step.strikes:
            _check_strike(where, strike, topology, toxics)
    for expectation in drill.expected:
        _check_expectation(where, expectation)
    return drill


def _check_strike(where: str, strike: Strike, topology: Topology, toxics: Sequence[str]) -> None:
    if strike.fault not in FAULTS:
        raise unknown_name(f"fault in {where}", strike.fault, FAULTS, "./lab drill")
    if strike.fault == "toxic" and strike.toxic not in toxics:
        raise unknown_name(f"toxic in {where}", strike.toxic, toxics, "./lab toxic")
    if (strike.fault == "clock") != bool(strike.skew):
        raise LabError(f"{where}: {strike.fault} with a skew of {strike.skew} s", "clock, and seconds that are not 0")
    if strike.fault == "clock" and topology.replication == "drbd":
        raise LabError(f"{where}: the clock of a virtual machine", "a server in a container of its own", "./lab drill")
    if strike.fault in OF_DRBD and topology.replication != "drbd":
        raise LabError(f"{where}: {strike.fault} in {topology.name}", "a topology of drbd", "./lab drill")
    if strike.fault in UNMANAGED and topology.manager:
        raise LabError(f"{where}: {strike.fault} under {topology.manager}", "the topology drbd", "./lab drill")
    if strike.fault == "drbd-split-brain" and len(strike.targets) != 1:
        raise LabError(f"{where}: {strike.fault} on {len(strike.targets)} machines", "its victim, one", "./lab drill")
    if not strike.targets:
        raise LabError(f"{where}: {strike.fault} is on nothing", f"a list of {FAULTS[strike.fault]}", "./lab drill")
    if FAULTS[strike.fault] == "nodes":
        for name in strike.targets:
            topology.node(name)
    else:
        links_of(topology, strike.targets)


def _check_expectation(where: str, expected: Expectation) -> None:
    if [expected.equals, expected.at_least, expected.at_most].count(None) != 2:
        raise LabError(f"{where}: {expected.says!r} has not one relation", "one of equals, at_least, at_most")
    if expected.expect is Verdict.UNKNOWN or (expected.expect is Verdict.REFUTED and not expected.because):
        raise LabError(f"{where}: {expected.says!r} expects {expected.expect}", "HOLDS, or REFUTED with because")


def links_of(topology: Topology, names: Sequence[str]) -> list[str]:
    """The links that are meant by names of links and nodes, in the topology's order; LabError for any other name."""
    nodes = {node.name for node in topology.nodes}
    for name in names:
        if name not in nodes:
            topology.link(name)
    return [link.name for link in topology.links if {link.name, link.source, link.target} & set(names)]
