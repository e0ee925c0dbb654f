"""What it costs to ask the nodes about their states during an experiment: with and without it, in turn."""

from collections.abc import Iterator
from contextlib import nullcontext

from replication_lab import replication
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.runner.watched import watching
from replication_lab.world import catalogue, clock, host
from replication_lab.world.docker import leftovers, project
from replication_lab.world.docker.lab import Lab

from tests.bench.figure import BenchFigure, figure

ROUNDS, SECONDS, SETTLE_SECONDS = 5, 10, 2


def figures(name: str) -> Iterator[BenchFigure]:
    """Yield the CPUs that asking takes in the servers and in the harness together.

    No load runs: that of eight clients varies by more than the asking costs, from one time to the next.
    """
    lab = project.start(LabRequest(catalogue.topology("semisync"), "mariadb", name, keep=False))
    try:
        more = [_cpus(lab, watched=True) - _cpus(lab, watched=False) for _ in range(ROUNDS)]
    finally:
        leftovers.remove(name)
    yield figure("CPUs that asking the nodes' states takes, servers and harness together", "", more, 0.02)


def _cpus(lab: Lab, watched: bool) -> float:
    """Return the CPUs that the lab and this process use, with or without somebody who asks."""
    with watching(replication.of(lab), 0.0) if watched else nullcontext():
        clock.pause(SETTLE_SECONDS)
        began, before = clock.timer(), _seconds(lab)
        clock.pause(SECONDS)
        return (_seconds(lab) - before) / (clock.timer() - began)


def _seconds(lab: Lab) -> float:
    return host.own_cpu_seconds() + sum(lab.all_containers.cpu_seconds().values())
