"""What it costs to ask the nodes about their states during a load: the same load with and without it, in turn."""

from collections.abc import Iterator
from contextlib import nullcontext

from replication_lab import replication
from replication_lab.cli.bench_figure import Figure, figure
from replication_lab.model.lab_request import LabRequest
from replication_lab.runner.watched import watching
from replication_lab.workloads.sequential_inserts import SequentialInserts
from replication_lab.world import catalogue
from replication_lab.world.docker import leftovers, project
from replication_lab.world.docker.lab import Lab

ROUNDS, SECONDS = 10, 5
# Commits that wait for no round trip are the fastest that an experiment measures: any work of the servers shows.
LOAD = SequentialInserts(clients=8, seconds=SECONDS)


def figures(name: str) -> Iterator[Figure]:
    """Yield the share of throughput that it costs; every second pair begins with the load that is watched."""
    lab = project.start(LabRequest(catalogue.topology("semisync"), "mariadb", name, keep=False, load=True))
    try:
        LOAD.prepare(lab)
        _throughput(lab, watched=True)
        lost = [_share_lost(lab, number) for number in range(ROUNDS)]
    finally:
        leftovers.remove(name)
    yield figure("share of throughput lost to asking the nodes' states, no round trip, 8 clients", "", lost, 0.01)


def _share_lost(lab: Lab, number: int) -> float:
    first = number % 2 == 1
    rates = {watched: _throughput(lab, watched) for watched in (first, not first)}
    return 1 - rates[True] / rates[False]


def _throughput(lab: Lab, watched: bool) -> float:
    """Return the commits a second of one load, with or without somebody who asks."""
    with watching(replication.of(lab), 0.0) if watched else nullcontext():
        return LOAD.run(lab, seed=7).throughput
