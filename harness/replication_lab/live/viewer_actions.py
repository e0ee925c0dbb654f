"""What viewers did, as bands for the charts, of which a drill can be made."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from replication_lab.model.core.errors import LabError
from replication_lab.model.live.view import CUT, HISTORY_SECONDS, LINK, NODE, Span

# A slider that is dragged changes a link many times: conditions that last less than this are not kept.
KEPT_SECONDS = 1.0
UNDONE_BY = {"start": ("kill", "stop"), "resume": ("pause",)}
# A fault lasts until it is undone, unless it was refused.
LASTING = ("kill", "stop", "pause")


class ViewerActions:
    """All of them, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Span] = []
        self._number = 0

    def condition(self, link: str, asked: str, at: float, is_usual: bool) -> None:
        """Note that a link has another condition; the usual one only ends the one before."""
        with self._lock:
            self._change(link, lambda _: {"end": round(at, 3)})
            self._all = [
                each
                for each in self._all
                if each.target != link or each.end is None or each.end - each.begin >= KEPT_SECONDS
            ]
            if not is_usual:
                self._begin(LINK, link, asked, at)

    def action(self, node: str, action: str, at: float, done: bool, seen: bool | None = None) -> None:
        """Note the begin of an action on a node, or its end; `start` and `resume` end what was done before."""
        with self._lock:
            if done:
                self._change(node, lambda each: _changed_by(each, action, at, seen))
            else:
                self._begin(NODE, node, action, at)

    def verified(self, target: str, seen: bool | None) -> None:
        """Note whether the condition of a link that acts now was seen to act."""
        with self._lock:
            self._change(target, lambda _: {"seen": seen})

    def _begin(self, kind: str, target: str, action: str, at: float) -> None:
        label = f"{target} {action}" if kind == LINK else f"{action} {target}"
        self._all.append(
            Span(id=self._number, begin=round(at, 3), label=label, kind=kind, target=target, action=action)
        )
        self._number += 1

    def _change(self, target: str, changes: Callable[[Span], dict[str, Any]]) -> None:
        self._all = [
            replace(each, **changes(each)) if each.target == target and each.end is None else each for each in self._all
        ]

    @property
    def count(self) -> int:
        return len(self._all)

    def spans(self, at: float) -> list[Span]:
        """Return those that have not ended, and those that ended within the history."""
        with self._lock:
            return [each for each in self._all if each.end is None or each.end > at - HISTORY_SECONDS]

    def for_a_drill(self, at: float) -> list[Span]:
        """Return all for a drill; what has not ended ends now, and an action that failed is left out."""
        with self._lock:
            return [
                replace(each, end=at if each.end is None else each.end)
                for each in self._all
                if each.kind == LINK or each.seen is not False
            ]


def _changed_by(each: Span, action: str, at: float, seen: bool | None) -> dict[str, Any]:
    """Return what the end of an action changes of what was done to the same node."""
    if each.action == action:
        return {"seen": seen} if action in LASTING and seen else {"seen": seen, "end": at}
    return {"end": at} if seen and each.action in UNDONE_BY.get(action, ()) else {}


# What undoes itself, and takes a moment.
RESTART_SECONDS = 2.0
LEAST_SECONDS = 0.5


def drill_of(clicks: Sequence[Span], topology: str, clients: dict[str, int], think_ms: float, about: str) -> str:
    """Return the YAML of a drill that repeats the clicks; LabError if none of them is a fault.

    Clicks that overlap are one step, whose faults end together: that is what a drill can do. A promotion is done at the
    end of its step, and its node gets a client, so that the drill sees who accepts writes.
    """
    steps = [step for group in _overlapping(clicks) if (step := _step(group))]
    if not steps:
        raise LabError(
            "nothing was clicked that a drill can repeat", "a condition of a link, or a node killed, stopped or paused"
        )
    promoted = [step["failover"] for step in steps if "failover" in step]
    drill = {
        "topology": topology,
        "about": about,
        "clients": clients | {node: 1 for node in promoted if node not in clients},
        **({"think_ms": round(think_ms, 1)} if think_ms else {}),
        "steps": steps,
        "expected": [
            {"says": "no acknowledged row is lost", "figure": "lost", "equals": 0},
            {"says": "all copies are equal", "figure": "diverged", "equals": 0},
        ],
    }
    return msgspec.yaml.encode(drill).decode()


def _overlapping(clicks: Sequence[Span]) -> list[list[Span]]:
    """Return the clicks in groups, by time: each begins after all before it have ended."""
    groups: list[list[Span]] = []
    until = float("-inf")
    for click in sorted(clicks, key=lambda each: each.begin):
        if click.begin < until:
            groups[-1].append(click)
        else:
            groups.append([click])
        until = max(until, click.end or click.begin)
    return groups


def _step(group: Sequence[Span]) -> dict[str, Any]:
    """Return the step of clicks that overlap; empty if none is a fault."""
    faults = [click for click in group if _fault(click)]
    if not faults:
        return {}
    begin, end = faults[0].begin, max(_end(click) for click in faults)
    first, *also = [
        {**_fault(click), **({"at": round(click.begin - begin, 1)} if click.begin > begin else {})} for click in faults
    ]
    promoted = [click.target for click in group if click.action == "promote"]
    return {
        **first,
        "seconds": round(max(end - begin, LEAST_SECONDS), 1),
        **({"also": also} if also else {}),
        **({"failover": promoted[-1]} if promoted else {}),
    }


def _end(click: Span) -> float:
    return click.begin + RESTART_SECONDS if click.action == "restart" else click.end or click.begin


def _fault(click: Span) -> dict[str, Any]:
    """Return a click as a fault of a drill; empty if it breaks nothing."""
    if click.kind == LINK:
        change = {"fault": "cut"} if click.action == CUT else {"fault": "condition", "condition": click.action}
        return {**change, "targets": [click.target]}
    if click.action in ("kill", "stop", "pause", "restart"):
        return {"fault": click.action, "targets": [click.target]}
    return {}
