"""The command that lists what the other commands take by name: list."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from replication_lab import experiments, runs
from replication_lab.cli import command, names, output
from replication_lab.cli.console import CSV, out, print_json
from replication_lab.cli.options import as_rows
from replication_lab.lab import status as views
from replication_lab.model.core.errors import unknown_name
from replication_lab.model.lab.condition import FORMS
from replication_lab.model.question.load import INSERTS, SYSBENCH
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, own

Rows = list[dict[str, Any]]
SHIPPED = "shipped"
ENGINES, TOXICS = "engines", "toxics"


def _origin(path: Path) -> dict[str, str]:
    return {"origin": own.origin(path)}


def _topologies() -> Rows:
    return [
        {"topology": name, "about": catalogue.topology(name).about, **_origin(catalogue.compose_file(name))}
        for name in catalogue.topologies()
    ]


def _experiments() -> Rows:
    found = {name: experiments.load(name) for name in experiments.names()}
    return [
        {"experiment": name, "question": each.question.strip().splitlines()[0], **_origin(experiments.file_of(name))}
        for name, each in found.items()
    ]


def _drills() -> Rows:
    return [
        {
            "topology": topology,
            "drill": drill.name,
            "about": drill.about,
            **_origin(catalogue.drill_file(topology, drill.name)),
        }
        for topology, found in drill_set.known().items()
        for drill in found
    ]


def _toxics() -> Rows:
    return [
        {"toxic": name, "about": catalogue.toxic(name).about, **_origin(catalogue.toxic_file(name))}
        for name in catalogue.toxics()
    ]


def _workloads() -> Rows:
    shipped = [{"workload": name, "origin": SHIPPED} for name in (INSERTS, *SYSBENCH)]
    return [*({"workload": name, **_origin(path)} for name, path in catalogue.workloads().items()), *shipped]


def _disks() -> Rows:
    return [
        {"disk": name, "about": disk.about, "limits": disk.limits.costs()} for name, disk in catalogue.disks().items()
    ]


def _engines() -> Rows:
    found = catalogue.engines().items()
    return [
        {"engine": name, "version": each.version, "topologies": catalogue.topologies_for(name)} for name, each in found
    ]


def _runs() -> Rows:
    return [{"run": name, "verdict": verdict} for name, verdict in runs.verdicts().items()]


KINDS: dict[str, Callable[[], Rows]] = {
    "topologies": _topologies,
    "experiments": _experiments,
    "drills": _drills,
    TOXICS: _toxics,
    "workloads": _workloads,
    "disks": _disks,
    ENGINES: _engines,
    "runs": _runs,
}


@command("list")
@click.argument(
    "kind", required=False, metavar=f"[{'|'.join(KINDS)}]", shell_complete=names.completed_by(lambda: list(KINDS))
)
@as_rows
def list_names(kind: str | None, json_: bool) -> None:
    if kind and kind not in KINDS:
        raise unknown_name("list", kind, KINDS, "./lab list")
    show(kind, json_)


def show(kind: str | None, json_: bool) -> None:
    """Print the names of a kind, or of all kinds."""
    if kind == ENGINES:
        known = views.engines()
        print_json(known, json_) if json_ else output.engines(out, known)
        return
    found = {name: rows() for name, rows in KINDS.items() if kind in (None, name)}
    if json_:
        print_json(found[kind] if kind else list(found.values()) if json_ == CSV else found, json_)
        return
    for name, rows in found.items():
        if not kind:
            out.print(f"[bold]{name}[/]")
        output.rows(out, [{key: _said(value) for key, value in row.items()} for row in _shown(rows)])
        if not kind:
            out.print()
    if kind == TOXICS:
        out.print(f"\nOr in numbers, {FORMS}. A rate is that of the link: all connections share it, in each direction.")


def _shown(rows: Rows) -> Rows:
    """Return the rows of a table: without the column origin where all are shipped."""
    if any(row.get("origin", SHIPPED) != SHIPPED for row in rows):
        return rows
    return [{key: value for key, value in row.items() if key != "origin"} for row in rows]


def _said(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
