"""From the name of an experiment to a judged run on disk, and back again from its record."""

import os
from pathlib import Path

from replication_lab import experiments
from replication_lab.model.experiment import Experiment, Preset
from replication_lab.report import Summary, summarise, write
from replication_lab.runner.rounds import Run, Tell, World
from replication_lab.world import catalogue, journal
from replication_lab.world.docker import images
from replication_lab.world.docker.project import exported
from replication_lab.world.journal import Journal


def run(
    experiment: Experiment, engines: list[str], preset: str, seed: int, tell: Tell, world: World | None = None
) -> tuple[Path, Summary]:
    """Run an experiment and write its report; the folder and the summary. Refuses bad names before anything starts."""
    world = world or World()
    engines = engines or list(experiment.usual)
    chosen = experiment.preset(preset)
    with exported({name: os.environ.get(name, value) for name, value in chosen.room.items()}):
        return _run(experiment, engines, chosen, seed, tell, world)


def _run(
    experiment: Experiment, engines: list[str], chosen: Preset, seed: int, tell: Tell, world: World
) -> tuple[Path, Summary]:
    world.make_ready(engines, experiment.topologies(chosen), tell)
    started = Run(experiment, chosen, list(dict.fromkeys(engines)), seed, Journal(experiment.name), world, tell)
    folder = started.journal.folder
    try:
        started.run()
    finally:
        # Nothing was recorded where not even the machine could be described; that error is the one to tell.
        if started.journal.record.events:
            summary = summarise(experiment, started.journal.record)
            write(folder, summary, started.journal.record)
    return folder, summary


def available(experiment: Experiment) -> list[str]:
    """The engines of an experiment whose images can be had from where images come from now."""
    return [name for name in experiment.engines if images.source() in catalogue.engines()[name].images]


def judge(run: str) -> Summary:
    """Judge a run again from its record alone."""
    _, record = journal.read(run)
    return summarise(experiments.load(record.run.experiment), record)


def report(run: str) -> list[str]:
    """Write a run's report again; the paths written."""
    folder, record = journal.read(run)
    return [
        str(folder / name) for name in write(folder, summarise(experiments.load(record.run.experiment), record), record)
    ]
