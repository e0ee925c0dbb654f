"""What witnesses cost: the throughput of a load with and without them, in turn, and the CPUs that they take.

They are those of every load and every drill (witnesses/witness.py), and the reading of the machine's noise. The CPUs
are counted with the reading of which servers take writes, too, which drills with an endpoint or a manager have. The
witnesses of clusters, and of replicated and emulated disks, have nothing to read in these labs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext

from replication_lab import replication
from replication_lab.faults.toxic_calibration import put
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes.noise import NoiseMeter
from replication_lab.runner.succession import TakesWrites
from replication_lab.witnesses.witness import observing
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import catalogue, clock, host
from replication_lab.world.docker import leftovers, project
from replication_lab.world.docker.lab import Lab

from tests.bench.figure import BenchFigure, figure

SECONDS, IDLE_SECONDS = 4, 10
# A topology, the condition of its link, the number of clients, that of pairs, and what that is called. A load of 16
# clients varies by 8 % from one time to the next; only many pairs tell a difference of one percent.
LOADS = (
    ("semisync", "wan-85ms", 1, 12, "one client of a semi-synchronous source 85 ms away"),
    ("async", "lan", 16, 40, "16 clients of an asynchronous source"),
)


def figures(name: str) -> Iterator[BenchFigure]:
    """Yield by how much witnesses lengthen the time of a commit, for each load, and the CPUs that they take."""
    for topology, toxic, clients, rounds, what in LOADS:
        lab = project.start(LabRequest(catalogue.topology(topology), "mariadb", name, load=True, keep=False))
        try:
            put(lab.link("source-replica"), catalogue.toxic(toxic))
            load = Inserts(clients=clients, seconds=SECONDS)
            load.prepare(lab)
            # Alternately first: a load that comes second finds a larger table.
            pairs = [_rates(lab, load, first=number % 2 == 0) for number in range(rounds)]
            idle = _idle(lab) if clients == 1 else []
        finally:
            leftovers.remove(name)
        yield figure(
            f"throughput without witnesses / with them: {what}", "", [bare / seen for bare, seen in pairs], 1.01
        )
        if idle:
            yield figure("CPUs that witnesses take, servers and harness together", "", idle, 0.05)


def _idle(lab: Lab) -> list[float]:
    replication.of(lab).wait_until_caught_up()
    return [_cpus(lab, True) - _cpus(lab, False) for _ in range(3)]


def _rates(lab: Lab, load: Inserts, first: bool) -> tuple[float, float]:
    """Return the commits a second without and with witnesses; `first` says whether those without are measured first."""
    found = {witnessed: _rate(lab, load, witnessed) for witnessed in (not first, first)}
    return found[False], found[True]


@contextmanager
def _observed(lab: Lab) -> Iterator[None]:
    with observing(lab), closing(NoiseMeter([lab])):
        yield


def _rate(lab: Lab, load: Inserts, witnessed: bool) -> float:
    with _observed(lab) if witnessed else nullcontext():
        return load.run(lab, 7).throughput


def _cpus(lab: Lab, witnessed: bool) -> float:
    """Return the CPUs that the lab and this process use without a load."""
    with ExitStack() as stack:
        if witnessed:
            stack.enter_context(_observed(lab))
            stack.enter_context(TakesWrites(lab).watched(clock.timer()))
        began, before = clock.timer(), _seconds(lab)
        clock.pause(IDLE_SECONDS)
        return (_seconds(lab) - before) / (clock.timer() - began)


def _seconds(lab: Lab) -> float:
    return host.own_cpu_seconds() + sum(lab.all_containers.cpu_seconds().values())
