"""A soak: rounds that are drawn from a seed, each a document like a drill's file, and its shortest failing part.

drills/soak.yaml has what is drawn, and what is promised then.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import NODES, FaultKind, Value
from replication_lab.model.lab.topology import Topology

# The name of a round's drill begins so.
ROUND = "soak-round-"
BEFORE = AFTER = 1.0
# The least and the most seconds of a fault; the share of rounds with two faults at once, and with failovers.
SHORTEST, LONGEST = 2.0, 6.0
TWO_AT_ONCE, FAILS_OVER, MOST_FAILOVERS = 0.5, 0.3, 3
# The only fault of a link that is proved also while a server at its end is gone.
CUT = "cut"
# The names of nodes without which a topology is no cluster.
MAJORITY = 3
Document = dict[str, Any]


class Drawable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault that can be drawn, by the kinds of replication; drills/soak.yaml explains the keys."""

    fault: str
    of: list[str]
    settings: dict[str, Value] = {}
    takes: str = ""
    spares_source: bool = False
    all_links: bool = False
    seconds: dict[str, float] = {}


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The clients of each node."""

    of: list[str]
    clients: int
    think_ms: float
    hot_row: bool = False


class Promised(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A promise of drills/promises.yaml."""

    promise: str
    of: list[str]
    except_failover: bool = False


class SoakData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of drills/soak.yaml."""

    faults: list[Drawable]
    one_takes: list[str]
    three_nodes: list[str]
    losses: dict[str, list[str]]
    loads: list[Load]
    keys: dict[str, Document]
    promises: list[Promised]


class Chosen(msgspec.Struct, frozen=True):
    """A fault that can be drawn, and its target; `nodes` are the node, or the nodes at the ends of the links."""

    drawable: Drawable
    target: str
    nodes: frozenset[str]
    of_link: bool

    def document(self, at: float = 0.0) -> Document:
        found = {"fault": self.drawable.fault, **self.drawable.settings, "targets": [self.target]}
        return {**found, "at": at} if at else found


def is_round(name: str) -> bool:
    """Return whether a drill of this name is a round of a soak."""
    return name.startswith(ROUND)


def choices(topology: Topology, data: SoakData, kinds: Mapping[str, FaultKind]) -> list[Chosen]:
    """Return all faults that a topology can have; LabError if it has no soak."""
    mine = [each for each in data.faults if topology.replication in each.of]
    has_majority = topology.replication not in data.three_nodes or len(topology.nodes) >= MAJORITY
    if topology.manager or not mine or not has_majority:
        raise LabError(f"no soak is defined for {topology.name}", "another topology", "./lab soak --topology semisync")
    found = [one for each in mine for one in _of(topology, each, kinds[each.fault])]
    return [one for one in found if _fits(topology, kinds[one.drawable.fault], one.target)]


def _of(topology: Topology, each: Drawable, kind: FaultKind) -> list[Chosen]:
    names = [node.name for node in topology.nodes if not (each.spares_source and node is topology.source)]
    if kind.acts_on == NODES:
        return [Chosen(each, name, frozenset([name]), of_link=False) for name in names]
    if each.all_links:
        return [Chosen(each, name, frozenset(names), of_link=True) for name in names]
    links = [link for link in topology.links if {link.source, link.target} <= set(names)]
    return [Chosen(each, link.name, frozenset([link.source, link.target]), of_link=True) for link in links]


def _fits(topology: Topology, kind: FaultKind, target: str) -> bool:
    with suppress(LabError):
        kind.check_targets("", topology, [target])
        return True
    return False


def can_act_at_once(one: Chosen, other: Chosen, one_takes: bool) -> bool:
    """Return whether neither fault ends or hides the other's effect or its proof.

    With `one_takes`, at most one of them takes a node, a link or a disk.
    """
    if one_takes and one.drawable.takes and other.drawable.takes:
        return False
    if one.of_link == other.of_link:
        return not (one.nodes <= other.nodes or other.nodes <= one.nodes)
    link, node = (one, other) if one.of_link else (other, one)
    hidden = node.nodes & link.nodes and node.drawable.takes == "node" and link.drawable.fault != CUT
    return link.target != node.target and not hidden


def drawn(
    topology: Topology, data: SoakData, kinds: Mapping[str, FaultKind], seed: int, minutes: float
) -> dict[str, Document]:
    """Return the rounds by name: more than the minutes suffice for, since a round also takes time to recover.

    The same arguments always give the same rounds. LabError for a topology without a soak.
    """
    drawing, kind = random.Random(f"{seed}:{topology.name}"), topology.replication
    found, one_takes = choices(topology, data, kinds), kind in data.one_takes
    losses = data.losses.get(kind, []) if len(topology.nodes) == len(("source", "replica")) else []
    loads = [load for load in data.loads if kind in load.of]
    rounds: dict[str, Document] = {}
    seconds = 0.0
    while seconds < minutes * 60:
        fails_over = bool(losses) and drawing.random() < FAILS_OVER
        if fails_over:
            cuts = [one for one in found if one.drawable.fault == CUT and not one_takes]
            steps = _failovers(topology, drawing, losses, cuts)
        else:
            steps = [_step(kind, drawing, found, one_takes)]
        load = drawing.choice(loads)
        rounds[f"{ROUND}{len(rounds) + 1:03d}"] = {
            "about": "; ".join(map(_said, steps)),
            "clients": {node.name: load.clients for node in topology.nodes},
            "think_ms": load.think_ms,
            "hot_row": load.hot_row,
            "before": BEFORE,
            "after": AFTER,
            **data.keys.get(kind, {}),
            "steps": steps,
            "promises": [
                each.promise for each in data.promises if kind in each.of and not (fails_over and each.except_failover)
            ],
        }
        seconds += BEFORE + sum(step["seconds"] + AFTER for step in steps)
    return rounds


def _one_of(drawing: random.Random, among: Sequence[Chosen]) -> Chosen:
    """Draw a kind of fault, then its target: a cluster has many links, and is to lose nodes as often."""
    fault = drawing.choice(sorted({one.drawable.fault for one in among}))
    return drawing.choice([one for one in among if one.drawable.fault == fault])


def _step(kind: str, drawing: random.Random, found: Sequence[Chosen], one_takes: bool) -> Document:
    faults = [_one_of(drawing, found)]
    others = [each for each in found if can_act_at_once(faults[0], each, one_takes)]
    if others and drawing.random() < TWO_AT_ONCE:
        faults.append(_one_of(drawing, others))
    least = max(SHORTEST, *(one.drawable.seconds.get(kind, 0) for one in faults))
    step = {**faults[0].document(), "seconds": round(least + drawing.uniform(0, LONGEST - SHORTEST), 1)}
    if len(faults) > 1:
        step["also"] = [faults[1].document(at=round(drawing.uniform(0, step["seconds"] / 2), 1))]
    return step


def _failovers(
    topology: Topology, drawing: random.Random, losses: Sequence[str], cuts: Sequence[Chosen]
) -> list[Document]:
    """Return steps in which the source is lost and the other node takes over, in turn.

    Only the first can also cut the link: another link leads from the node that took over.
    """
    source, other = topology.source.name, topology.replicas[0].name
    steps: list[Document] = []
    for _ in range(drawing.randint(1, MOST_FAILOVERS)):
        both: list[Document] = [{"fault": drawing.choice(losses), "targets": [source]}]
        if cuts and not steps and drawing.random() < TWO_AT_ONCE:
            both.append(drawing.choice(cuts).document())
            drawing.shuffle(both)
            both[1]["at"] = round(drawing.uniform(0, SHORTEST), 1)
        seconds = round(drawing.uniform(SHORTEST, LONGEST), 1)
        steps.append({**both[0], "seconds": seconds, "failover": other, **({"also": both[1:]} if both[1:] else {})})
        source, other = other, source
    return steps


def _said(step: Document) -> str:
    faults = [
        " ".join([one["fault"], *(str(one[key]) for key in ("toxic", "skew") if key in one), "on", *one["targets"]])
        + (f" after {one['at']:g} s" if "at" in one else "")
        for one in (step, *step.get("also", []))
    ]
    return " and ".join(faults) + (f", then {step['failover']} takes over" if "failover" in step else "")


# The place of a fault: its round, its step, its number in the step.
Fault = tuple[str, int, int]
# How often rounds are run before they count as held: the times of a real machine differ, so some failures are rare.
TRIES = 3


def faults_of(rounds: Mapping[str, Document]) -> list[Fault]:
    """Return the place of each fault, in the order in which the faults are injected."""
    return [
        (name, number, place)
        for name, document in rounds.items()
        for number, step in enumerate(document["steps"])
        for place in range(1 + len(step.get("also", [])))
    ]


def with_faults(rounds: Mapping[str, Document], kept: Collection[Fault]) -> dict[str, Document]:
    """Return the rounds with these faults only; steps and rounds without any are left out, and promises stay.

    What held with more faults has to hold with fewer.
    """
    left = {}
    for name, document in rounds.items():
        steps = []
        for number, step in enumerate(document["steps"]):
            of_step = {key: step[key] for key in ("seconds", "failover") if key in step}
            first = {key: value for key, value in step.items() if key not in ("seconds", "failover", "also")}
            faults = [
                each for place, each in enumerate([first, *step.get("also", [])]) if (name, number, place) in kept
            ]
            if faults:
                steps.append({**faults[0], **of_step, **({"also": faults[1:]} if faults[1:] else {})})
        if steps:
            left[name] = {**document, "steps": steps}
    return left


def shortest(
    rounds: Mapping[str, Document], fails: Callable[[dict[str, Document]], bool], goes_on: Callable[[], bool]
) -> dict[str, Document]:
    """Return the shortest part of failing rounds that still fails, by delta debugging, as far as time allows.

    `fails` runs rounds again, and each part up to three times. The last round is the one that failed, so it is tried
    alone first.
    """

    def still_fails(part: list[Fault]) -> bool:
        return any(goes_on() and fails(with_faults(rounds, part)) for _ in range(TRIES))

    kept = faults_of(rounds)
    last = [each for each in kept if each[0] == kept[-1][0]]
    if len(last) < len(kept) and still_fails(last):
        kept = last
    parts = 2
    while len(kept) > 1 and goes_on():
        size = -(-len(kept) // parts)
        without = [kept[:begin] + kept[begin + size :] for begin in range(0, len(kept), size)]
        fewer = next(filter(still_fails, without), None)
        if fewer is not None:
            kept, parts = fewer, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(kept))
    return with_faults(rounds, kept)
