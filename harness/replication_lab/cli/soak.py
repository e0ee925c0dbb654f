"""The command for soaks: rounds of drills drawn at random, and the shortest schedule that fails."""

import math
from pathlib import Path
from typing import Any

import click
import msgspec

from replication_lab import runs
from replication_lab.cli import command, names
from replication_lab.cli.console import tell
from replication_lab.cli.exit_codes import leave
from replication_lab.cli.options import as_json, of_duration, of_engine, of_image, server_of
from replication_lab.cli.record import print_summary
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.drill.shortest import shortest
from replication_lab.runner import soak as soaks
from replication_lab.world import catalogue, clock, places
from replication_lab.world.files import write_whole

SHORTEST = "shortest.yaml"


@command("soak")
@click.option(
    "--topology", default="semisync", show_default=True, shell_complete=names.completed_by(catalogue.topologies)
)
@of_duration("1h", low=0.001)
@click.option("--seed", default=7, show_default=True)
@click.option("--schedule", "file", type=click.Path(path_type=Path), metavar="FILE")
@of_engine
@of_image
@as_json
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
    server = server_of(schedule.topology, engine, image)
    folder, summary = runs.soak(schedule, server, math.inf if file else seconds, tell)
    print_summary(summary, json_)
    tell(f"record, ledgers, schedule and report: {places.from_here(folder)}")
    if summary.exit_code == ExitCode.FINDING and not summary.interrupted:
        done = {each.name: schedule.rounds[each.name] for each in summary.drills}
        _tell_shortest(msgspec.structs.replace(schedule, rounds=done), server, seconds, folder / SHORTEST)
    leave(summary.exit_code)


def _tell_shortest(failed: soaks.Schedule, server: str, seconds: float, path: Path) -> None:
    """Look for the shortest schedule that fails for these seconds; write and print it."""
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
    tell(f"repeat it: ./lab soak --schedule {places.from_here(path)}")
