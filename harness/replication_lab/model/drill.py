"""A drill: clients write, something breaks, it is mended, and what was promised is held against what happened.

Data only: one YAML file per drill (drills/TOPOLOGY/NAME.yaml), the evidence of one that was done, its verdicts.
"""

import random
from collections.abc import Sequence
from functools import cached_property

import msgspec

from replication_lab.model import checkers
from replication_lab.model.checkers import Figures
from replication_lab.model.claim import Verdict
from replication_lab.model.errors import LabError, unknown_name
from replication_lab.model.history import Attempt, Copy, Look
from replication_lab.model.record import Proof
from replication_lab.model.topology import Topology

SCHEMA = 2
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


# --- what happened ----------------------------------------------------------------------------------------------------


class View(msgspec.Struct, frozen=True):
    """What a node said of itself (Primary, replicating, semi-sync ON, …), or the error of one that did not answer.

    In a cluster also how many nodes it saw, and which history it had; of a replica, how far it says it is behind.
    """

    says: str = ""
    size: int = 0
    history: str = ""
    error: str = ""
    behind_s: int | None = None

    def __str__(self) -> str:
        return self.error or self.says + (f" of {self.size}" if self.size > 1 else "")


class Acted(msgspec.Struct, frozen=True):
    """A fault at work, in seconds since the load began: begun, seen to act, undone, all nodes whole, seen to be gone.

    `views` are the nodes' own just before it was undone, `struck` is when all of it had been done.
    """

    step: Step
    broke: float
    held: float
    healed: float
    whole: float
    gone: float
    proofs: list[Proof] = []
    views: dict[str, View] = {}
    struck: float | None = None

    @property
    def window(self) -> tuple[float, float]:
        """In which it acted all the time; a kill takes a moment."""
        return (self.broke if self.struck is None else self.struck), self.healed


class Return(msgspec.Struct, frozen=True):
    """How a node came back: by IST, SST, led (it went first) or nothing (it had missed nothing), and how many
    writesets it was sent; Synced so many seconds after the fault was undone."""

    by: str
    writesets: int
    synced_s: float


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """One line of drill.jsonl."""


class Opened(Event, frozen=True, tag="opened"):
    """The first line: what was asked for and where."""

    topology: str
    engine: str
    version: str
    seed: int
    drills: list[Drill]
    started: str
    environment: dict = {}
    images: dict[str, str] = {}
    settings: dict = {}
    schema: int = SCHEMA


class Evidence(Event, frozen=True, kw_only=True, tag="evidence"):
    """Everything about one drill that was done but its ledger. `load` is its begin and end in seconds.

    `compared` is what a comparison of the copies below their rows has found: differing_kib of two replicated disks.
    `harness` is what the clients cost: memory_mib, the most that their process has held, and cpu_share, of one CPU.
    `doubts` are reasons to believe none of its figures.
    """

    drill: Drill
    at: str
    wait_before: float = 0
    load: tuple[float, float] = (0.0, 0.0)
    acted: list[Acted] = []
    before: dict[str, View] = {}
    after: dict[str, View] = {}
    returns: dict[str, Return] = {}
    copies: list[Copy] = []
    counted: dict[str, int] = {}
    compared: dict[str, int] = {}
    promoted_s: float | None = None
    forbidden: list[str] = []
    harness: dict[str, float] = {}
    doubts: list[str] = []

    @property
    def mended(self) -> float:
        """When the last fault was undone; the end of the load where there was none."""
        return max((acted.healed for acted in self.acted), default=self.load[1])

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [acted.window for acted in self.acted]


class Closed(Event, frozen=True, tag="closed"):
    """The last line: done, interrupted, or crashed with the error that the user saw."""

    why: str


# --- what it means ----------------------------------------------------------------------------------------------------

# Every drill's, whatever its file expects: harness/replication_lab/drills/forbidden.yaml says what no log may hold.
QUIET_LOGS = Expectation("no log holds what none may", "forbidden", equals=0)


class Held(msgspec.Struct, frozen=True):
    """An expectation with its verdict: what was found, and why it is unknown where it is."""

    expectation: Expectation
    verdict: Verdict
    found: float | str | None
    why: str = ""

    @property
    def changed(self) -> bool:
        return self.verdict is not Verdict.UNKNOWN and self.verdict is not self.expectation.expect


class Result(msgspec.Struct, frozen=True, dict=True):
    """One drill with its figures and verdicts."""

    drill: Drill
    figures: dict[str, float | str]
    held: list[Held]
    doubts: list[str]
    evidence: Evidence | None = None

    @cached_property
    def exit_code(self) -> int:
        """0 as expected, 1 a verdict differs, 2 one is unknown."""
        if any(one.changed for one in self.held):
            return 1
        return 2 if any(one.verdict is Verdict.UNKNOWN for one in self.held) else 0


def judge(evidence: Evidence, history: Sequence[Attempt], looks: Sequence[Look] = ()) -> Result:
    """The verdicts of a drill from its evidence and its ledger, nothing else."""
    rows, row_failures = checkers.rows(history, evidence.copies)
    service, service_failures = checkers.service(history, evidence.load, evidence.windows)
    reads, read_failures = checkers.reads(history, looks, evidence.copies, evidence.mended)
    figures = {**rows, **service, **reads, **_of_nodes(evidence)}
    failures = [*row_failures, *service_failures, *read_failures]
    doubts = [*evidence.doubts, *(proof.doubt for acted in evidence.acted for proof in acted.proofs if proof.doubt)]
    if not any(attempt.acknowledged for attempt in history):
        doubts.append("no statement was acknowledged at all")
    held = [_hold(expectation, figures, doubts, failures) for expectation in (*evidence.drill.expected, QUIET_LOGS)]
    return Result(evidence.drill, figures, held, [*doubts, *failures], evidence)


def not_done(drill: Drill, why: str) -> Result:
    """A drill without evidence: each of its expectations is unknown."""
    held = [Held(expectation, Verdict.UNKNOWN, None, why) for expectation in drill.expected]
    return Result(drill, {}, held, [why])


def _of_nodes(evidence: Evidence) -> Figures:
    """What the nodes said: of their histories, of themselves just before the mending, of their return."""
    figures: Figures = {
        **evidence.counted,
        **evidence.compared,
        **evidence.harness,
        "forbidden": len(evidence.forbidden),
    }
    if {"cert_failures", "bf_aborts"} <= set(figures):
        figures["conflicts"] = figures["cert_failures"] + figures["bf_aborts"]
    said = [*evidence.before.values(), *evidence.after.values()]
    if any(view.history for view in said) and not any(view.error for view in said):
        figures["histories"] = len({view.history for view in said})
    if evidence.promoted_s is not None:
        figures["promoted_s"] = evidence.promoted_s
    for acted in evidence.acted:
        figures["redundancy_back_s"] = round(acted.whole - acted.healed, 3)
        for node, view in acted.views.items():
            if not view.error:
                figures[f"view.{node}"] = view.says
                figures[f"view_size.{node}"] = view.size
                if view.behind_s is not None:
                    figures[f"behind_s.{node}"] = view.behind_s
    for node, found in evidence.returns.items():
        figures[f"returned.{node}"] = found.by
        figures[f"synced_s.{node}"] = round(found.synced_s, 3)
    return figures


def _hold(expected: Expectation, figures: Figures, doubts: list[str], failures: list[str]) -> Held:
    found = figures.get(expected.figure, _none_counted(expected.figure))
    if doubts:
        return Held(expected, Verdict.UNKNOWN, found, doubts[0])
    if found is None:
        why = next((failure for failure in failures if expected.figure in failure), f"no figure {expected.figure}")
        return Held(expected, Verdict.UNKNOWN, None, why)
    try:
        return Held(expected, Verdict.HOLDS if expected.holds(found) else Verdict.REFUTED, found)
    except TypeError:
        return Held(expected, Verdict.UNKNOWN, found, f"{found!r} cannot be compared with {expected.bound}")


def _none_counted(figure: str) -> int | None:
    """Errors are counted where they occur: one that has no figure did not."""
    return 0 if ".error." in f".{figure}" else None


def exit_code(results: Sequence[Result]) -> int:
    """1 when a verdict differs from the known one, else 2 when one is unknown or there is none, else 0."""
    codes = {result.exit_code for result in results}
    return 1 if 1 in codes else 2 if not codes or 2 in codes else 0


AnyEvent = Opened | Evidence | Closed
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def parse_events(lines: Sequence[bytes]) -> list[Event]:
    """The events of a record; a last line cut off in its writing is left out. LabError for any other bad line."""
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise LabError(
                f"line {number} of drill.jsonl cannot be read: {error}",
                "one event a line",
                f"sed -n {number}p drill.jsonl",
            ) from error
    return events
