"""The results of drills as text for people: harness/replication_lab/report/drill_text.txt.j2 filled in."""

import re
from functools import cache

import jinja2

from replication_lab.model.drill.application import sentences
from replication_lab.model.drill.history import Outcome
from replication_lab.model.drill.soak import is_round
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.mysql_errors import meaning
from replication_lab.report import templates, wording
from replication_lab.report.rows import DrillRow, DrillsSummary


def text(summary: DrillsSummary) -> str:
    """Return the warnings, a paragraph a drill, and the outcome."""
    first = [f"{line}\n" for line in wording.warnings(summary)]
    is_zero = any(drill.figures.get("lost") == 0 for drill in summary.drills)
    checked = [wording.CHECKED] if is_zero else []
    return "\n".join([*first, *map(_shown, summary.drills), *checked, wording.overall(summary)])


def _shown(drill: DrillRow) -> str:
    """Return a drill's paragraph; of a soak's round a line, and the paragraph if a verdict is not the expected one."""
    if not is_round(drill.name):
        return paragraph(drill)
    said = {0: "HOLDS", 1: "REFUTED"}.get(drill.exit_code, "UNKNOWN")
    lost = f"{drill.figures['lost']} lost" if "lost" in drill.figures else "lost rows are not known"
    line = f"{said:8} {drill.name}: {drill.about}; {_counts(drill.figures)}; {lost}"
    return f"{line}\n{paragraph(drill)}" if drill.exit_code else line


def paragraph(drill: DrillRow) -> str:
    """Return the clients' results, the stall, losses, how nodes came back, and the verdicts."""
    return _template().render(drill=drill, **_parts(drill))


@cache
def _template() -> jinja2.Template:
    """Return the template, compiled once for all drills."""
    return templates.environment().get_template("drill_text.txt.j2")


def _parts(drill: DrillRow) -> dict:
    figures, nodes = drill.figures, _nodes(drill)
    during = {node: _counts(figures, f"during.{node}.") for node in nodes if f"during.{node}.acknowledged" in figures}
    return {
        "figures": figures,
        "application": sentences(figures),
        "totals": _counts(figures),
        "during": during,
        "by_node": {} if during else {node: _counts(figures, suffix=f".{node}") for node in nodes},
        "stalls": _of_clients(drill, "stall_s"),
        "back": _of_clients(drill, "rto_s"),
        "outages": _of_clients(drill, "outage_s"),
        "latency_ratio": _of_clients(drill, "latency_ratio"),
    }


def _of_clients(drill: DrillRow, name: str) -> dict[str, float | str | None]:
    """Return a figure of the clients of each node; of an endpoint one of all, because servers change behind it."""
    if drill.endpoint:
        return {ENDPOINT: drill.figures[name]} if name in drill.figures else {}
    # A node that never served again has no such time, and is shown all the same.
    known = "during.{}.acknowledged" if name == "rto_s" else f"{name}.{{}}"
    nodes = [node for node in _nodes(drill) if known.format(node) in drill.figures]
    return {node: drill.figures.get(f"{name}.{node}") for node in nodes}


def _nodes(drill: DrillRow) -> list[str]:
    """Return the nodes that the clients wrote to; behind an endpoint those that answered, and what no server got."""
    if drill.endpoint is None:
        return sorted(drill.clients)
    return sorted(name.partition(".")[2] for name in drill.figures if name.startswith("acknowledged."))


def _counts(figures: dict, prefix: str = "", suffix: str = "") -> str:
    """Return the counts in words: 12 acknowledged, 3 failed, 1 unknown; errors: 3 × 1047 this node does not serve."""
    outcomes = ", ".join(f"{figures.get(prefix + outcome + suffix, 0)} {outcome}" for outcome in Outcome)
    errors = re.compile(rf"{re.escape(prefix)}error\.(\d+){re.escape(suffix)}")
    found = [(match[1], many) for name, many in figures.items() if (match := errors.fullmatch(name))]
    said = ", ".join(f"{many} × {code} {meaning(int(code))}".strip() for code, many in found)
    return f"{outcomes}; errors: {said}" if said else outcomes
