"""What a viewer did as a drill: what was broken, when, and for how long."""

from collections.abc import Sequence
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.live.view import CUT, LINK, Span

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
