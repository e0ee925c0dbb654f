"""The commands for drills, chosen by name or drawn at random: drill, soak."""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from replication_lab import runs
from replication_lab.attach import drills as attached_drills
from replication_lab.attach.attach import find_attached
from replication_lab.cli import command, listing, names, options
from replication_lab.cli.console import print_json, tell
from replication_lab.cli.files import pairs
from replication_lab.cli.record import print_summary
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.verdict import worst
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.soak import shortest
from replication_lab.model.lab.companion import settings_apart
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.manager import MANAGER
from replication_lab.report import DrillsSummary
from replication_lab.runner import drill_set
from replication_lab.runner import soak as soaks
from replication_lab.world import catalogue, clock, folders
from replication_lab.world.files import write_whole


@command("drill")
@click.argument("topology", required=False, metavar="[TOPOLOGY|FILE]", shell_complete=names.topologies)
@click.option("--drill", "fault", metavar="NAME", shell_complete=names.drills)
@options.of_duration(None)
@click.option("--seed", default=7, show_default=True)
@options.of_servers
@options.of_runs(1, "count")
@options.of_sites
@options.of_companions
@click.option("--set", "settings", multiple=True, metavar="endpoint.NAME=VALUE|manager.NAME=VALUE")
@options.clients_from
@options.keep_failed
@click.option("--lab", "name", metavar="NAME", shell_complete=names.labs)
@click.option("--probe", metavar="URL|COMMAND")
@click.option("--probe-in", metavar="SERVICE", default="")
@options.as_json
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
        _run(_on_attached(topology, fault, seconds, others), seed, count, keep, json_)
    if not topology:
        besides = others["endpoint"] or others["manager"] or others["settings"]
        if fault or seconds is not None or keep or count > 1 or besides:
            able = next((name for name in catalogue.topologies() if fault in catalogue.drills(name)), "")
            raise LabError(
                "no topology given for --drill, --duration, --runs, --endpoint, --manager, --set or --keep",
                "lab drill TOPOLOGY with its options",
                f"./lab drill {able} --drill {fault}" if able else "./lab list drills",
            )
        listing.show("drills", json_)
        return
    topology, drills = _chosen(topology, fault, seconds)
    of_endpoint, of_manager = _companions(others["settings"])
    drills = drill_set.at_endpoint(drills, others["endpoint"] or "", of_endpoint)
    drills = drill_set.under_manager(drills, others["manager"] or "", of_manager)
    server = options.server_of(topology, others["engine"], others["image"])
    sites = options.sites_of(
        catalogue.topology(topology), others["sites"], others["site_addresses"], others["site_network"]
    )
    _run(partial(runs.drill, topology, server, drills, tell=tell, keep=keep, sites=sites), seed, count, keep, json_)


# Runs drills with a seed.
Once = Callable[[int], tuple[Path, DrillsSummary]]


def _run(once: Once, seed: int, count: int, keep: bool, json_: bool) -> NoReturn:
    """Run drills this many times, each time with the next seed, print each summary, and exit with the worst status."""
    summaries = []
    for number in range(count):
        folder, summary = once(seed + number)
        summaries.append(summary)
        if not json_:
            print_summary(summary, json_)
        tell(f"record, ledgers and report: {folders.from_here(folder)} (report.html, summary.json, junit.xml)")
        if summary.interrupted or (keep and summary.exit_code):
            break
    if json_:
        print_json(summaries) if count > 1 else print_summary(summary, json_)
    if count > 1:
        good = sum(summary.exit_code == 0 for summary in summaries)
        tell(f"{good} of {len(summaries)} runs came out as expected, {count - len(summaries)} were not run")
    sys.exit(worst(summary.exit_code for summary in summaries))


def _on_attached(topology: str | None, fault: str | None, seconds: float | None, others: Mapping[str, Any]) -> Once:
    """Return what runs the drills of an attached project; LabError for options that it cannot have."""
    if not others["name"]:
        raise LabError("--probe without --lab", "an attached project", "./lab drill --lab NAME --probe URL")
    if others["endpoint"] or others["manager"] or others["settings"]:
        raise LabError(
            f"--lab {others['name']} with --endpoint, --manager or --set",
            "a project whose endpoint was named when it was attached, and whose manager is its own",
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
    return partial(runs.drill_attached, lab, drills, tell=tell, probe=probe)


def _chosen(given: str, fault: str | None, seconds: float | None) -> tuple[str, list[Drill]]:
    if Path(given).suffix not in (".yaml", ".yml"):
        return given, drill_set.chosen(given, fault, seconds)
    if fault:
        raise LabError(
            f"--drill {fault} with the file {given}", "a topology with --drill, or a file without it", "./lab drill"
        )
    found = drill_set.read(Path(given))
    return found.topology, [found.with_duration(seconds)]


def _companions(given: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    settings, of_endpoint = settings_apart(pairs("--set", given), ENDPOINT)
    servers, of_manager = settings_apart(settings, MANAGER)
    if servers:
        raise LabError(
            f"--set {next(iter(servers))} in a drill, whose file sets the servers",
            "settings of the endpoint or of the manager",
            "--set endpoint.inter=500",
        )
    return of_endpoint, of_manager


SHORTEST = "shortest.yaml"


@command("soak")
@click.option("--topology", default="semisync", show_default=True, shell_complete=names.topologies)
@options.of_duration("1h", low=0.001)
@click.option("--seed", default=7, show_default=True)
@click.option("--schedule", "file", type=click.Path(path_type=Path), metavar="FILE")
@options.of_servers
@options.as_json
def soak(
    *,
    topology: str,
    seconds: float,
    seed: int,
    file: Path | None,
    engine: tuple[str, ...],
    image: tuple[str, ...],
    json_: bool,
) -> None:
    schedule = soaks.read(file) if file else soaks.draw(catalogue.topology(topology), seed, seconds / 60)
    server = options.server_of(schedule.topology, engine, image)
    folder, summary = runs.soak(schedule, server, math.inf if file else seconds, tell)
    print_summary(summary, json_)
    tell(f"record, ledgers, schedule and report: {folders.from_here(folder)}")
    if summary.exit_code == ExitCode.FINDING and not summary.interrupted:
        done = {each.name: schedule.rounds[each.name] for each in summary.drills}
        _tell_shortest(msgspec.structs.replace(schedule, rounds=done), server, seconds, folder / SHORTEST)
    sys.exit(summary.exit_code)


def _tell_shortest(failed: soaks.Schedule, server: str, seconds: float, path: Path) -> None:
    ends, stopped = clock.timer() + seconds, False

    def fails(rounds: dict[str, Any]) -> bool:
        nonlocal stopped
        tell(f"looking for the shortest schedule: {len(rounds)} of {len(failed.rounds)} rounds again")
        _, summary = runs.soak(msgspec.structs.replace(failed, rounds=rounds), server, math.inf, tell)
        stopped = stopped or summary.interrupted is not None
        return summary.exit_code == ExitCode.FINDING

    found = shortest(failed.rounds, fails, lambda: not stopped and clock.timer() < ends)
    kept = msgspec.structs.replace(failed, rounds=found)
    write_whole(path, kept.text())
    tell(f"seed {kept.seed}; the shortest schedule that was seen to fail, {len(found)} of {len(failed.rounds)} rounds:")
    tell(kept.text().decode())
    tell(f"repeat it: ./lab soak --schedule {folders.from_here(path)}")
