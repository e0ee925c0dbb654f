"""The command that lists what the other commands take by name: list."""

from collections.abc import Callable
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


KINDS: dict[str, Callable[[], Rows]] = {
    "topologies": lambda: [
        {"topology": name, "about": catalogue.topology(name).about, "origin": own.origin(catalogue.compose_file(name))}
        for name in catalogue.topologies()
    ],
    "experiments": lambda: [
        {
            "experiment": name,
            "question": experiments.load(name).question.strip().splitlines()[0],
            "origin": own.origin(experiments.file_of(name)),
        }
        for name in experiments.names()
    ],
    "drills": lambda: [
        {
            "topology": topology,
            "drill": drill.name,
            "about": drill.about,
            "origin": own.origin(catalogue.drill_file(topology, drill.name)),
        }
        for topology, found in drill_set.known().items()
        for drill in found
    ],
    TOXICS: lambda: [
        {"toxic": name, "about": catalogue.toxic(name).about, "origin": own.origin(catalogue.toxic_file(name))}
        for name in catalogue.toxics()
    ],
    "workloads": lambda: [
        *({"workload": name, "origin": own.origin(path)} for name, path in catalogue.workloads().items()),
        *({"workload": name, "origin": SHIPPED} for name in (INSERTS, *SYSBENCH)),
    ],
    "disks": lambda: [
        {"disk": name, "about": disk.about, "limits": disk.limits.costs()} for name, disk in catalogue.disks().items()
    ],
    ENGINES: lambda: [
        {"engine": name, "version": each.version, "topologies": catalogue.topologies_for(name)}
        for name, each in catalogue.engines().items()
    ],
    "runs": lambda: [{"run": name, "verdict": verdict} for name, verdict in runs.verdicts().items()],
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
