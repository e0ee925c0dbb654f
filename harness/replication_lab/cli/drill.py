"""The command for drills."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from replication_lab import runs
from replication_lab.attach import drills as attached_drills
from replication_lab.attach.attach import find_attached
from replication_lab.cli import command, listing, names
from replication_lab.cli.console import print_json, tell
from replication_lab.cli.files import pairs
from replication_lab.cli.options import (
    as_json,
    clients_from,
    keep_failed,
    of_endpoint,
    of_engine,
    of_image,
    of_sites,
    server_of,
    sites_of,
)
from replication_lab.cli.record import print_summary
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import worst
from replication_lab.model.drill.drill import Drill
from replication_lab.model.lab.endpoint import settings_apart
from replication_lab.report import DrillsSummary
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, places


@command("drill")
@click.argument(
    "topology", required=False, metavar="[TOPOLOGY|FILE]", shell_complete=names.completed_by(catalogue.topologies)
)
@click.option("--fault", metavar="NAME", shell_complete=names.completed_by(names.drills))
@click.option("--seconds", type=float)
@click.option("--seed", default=7, show_default=True)
@of_engine
@of_image
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True)
@of_sites
@of_endpoint
@click.option("--set", "settings", multiple=True, metavar="endpoint.NAME=VALUE")
@clients_from
@keep_failed
@click.option("--lab", "name", metavar="NAME", shell_complete=names.completed_by(names.labs))
@click.option("--probe", metavar="URL|COMMAND")
@click.option("--probe-in", metavar="SERVICE", default="")
@as_json
def drill(
    *,
    topology: str | None,
    fault: str | None,
    seconds: float | None,
    seed: int,
    count: int,
    keep: bool,
    json_: bool,
    **others: Any,
) -> None:
    if others["name"] or others["probe"] or others["probe_in"]:
        _on_attached(topology, fault, seconds, (seed, count, keep, json_), others)
    if not topology:
        if fault or seconds is not None or keep or count > 1 or others["endpoint"] or others["settings"]:
            raise LabError(
                "no topology given for --fault, --seconds, --count, --endpoint, --set or --keep",
                "lab drill TOPOLOGY with its options",
                f"./lab drill {_with_fault(fault)} --fault {fault}" if _with_fault(fault) else "./lab list drills",
            )
        listing.show("drills", json_)
        return
    topology, drills = _chosen(topology, fault, seconds)
    drills = drill_set.at_endpoint(drills, others["endpoint"] or "", _endpoint_settings(others["settings"]))
    server = server_of(topology, others["engine"], others["image"])
    sites = sites_of(catalogue.topology(topology), others["sites"], others["site_addresses"])
    _run(
        lambda number: runs.drill(topology, server, drills, seed + number, tell, keep=keep, sites=sites),
        *(count, keep, json_),
    )


def _run(once: Callable[[int], tuple[Path, DrillsSummary]], count: int, keep: bool, json_: bool) -> NoReturn:
    """Run drills this many times, print each summary, and exit with the worst status."""
    summaries = []
    for number in range(count):
        folder, summary = once(number)
        summaries.append(summary)
        if not json_:
            print_summary(summary, json_)
        tell(f"record, ledgers and report: {places.from_here(folder)} (report.html, summary.json, junit.xml)")
        if summary.interrupted or (keep and summary.exit_code):
            break
    if json_:
        print_json(summaries) if count > 1 else print_summary(summary, json_)
    if count > 1:
        good = sum(summary.exit_code == 0 for summary in summaries)
        tell(f"{good} of {len(summaries)} runs came out as expected, {count - len(summaries)} were not run")
    sys.exit(worst(summary.exit_code for summary in summaries))


def _on_attached(
    topology: str | None,
    fault: str | None,
    seconds: float | None,
    how: tuple[int, int, bool, bool],
    others: Mapping[str, Any],
) -> NoReturn:
    """Run drills on an attached project."""
    seed, count, keep, json_ = how
    if not others["name"]:
        raise LabError("--probe without --lab", "an attached project", "./lab drill --lab NAME --probe URL")
    if others["endpoint"] or others["settings"]:
        raise LabError(
            f"--lab {others['name']} with --endpoint or --set",
            "a project whose endpoint was named when it was attached",
            "./lab attach --help",
        )
    if topology or others["engine"] or others["image"] or others["sites"]:
        raise LabError(
            f"--lab {others['name']} with {topology or 'options for servers or sites'}",
            "either an attached project, which is used as it is, or a topology",
            f"./lab drill --lab {others['name']}",
        )
    lab = find_attached(others["name"])
    drills = attached_drills.chosen(lab, fault, seconds)
    probe = attached_drills.probe_of(lab, others["probe"], others["probe_in"]) if others["probe"] else None
    drills = attached_drills.probed(drills) if probe else drills
    _run(lambda number: runs.drill_attached(lab, drills, seed + number, tell, probe), count, keep, json_)


def _chosen(given: str, fault: str | None, seconds: float | None) -> tuple[str, list[Drill]]:
    """Return the topology and its drills, or those of a file."""
    if Path(given).suffix not in (".yaml", ".yml"):
        return given, drill_set.chosen(given, fault, seconds)
    if fault:
        raise LabError(
            f"--fault {fault} with the file {given}", "a topology with --fault, or a file without it", "./lab drill"
        )
    found = drill_set.read(Path(given))
    return found.topology, [found.with_duration(seconds)]


def _endpoint_settings(given: tuple[str, ...]) -> dict[str, str]:
    servers, found = settings_apart(pairs("--set", given))
    if servers:
        raise LabError(
            f"--set {next(iter(servers))} in a drill, whose file sets the servers",
            "settings of the endpoint",
            "--set endpoint.inter=500",
        )
    return found


def _with_fault(fault: str | None) -> str:
    """Return the first topology that has this drill; an empty string if none has."""
    return next((name for name in catalogue.topologies() if fault in catalogue.drills(name)), "")
