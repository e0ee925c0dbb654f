"""What a record measured, as points: a system under a load, its throughput and its latencies."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median

from replication_lab import experiments
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.server_options import CaseState, ServerOptions
from replication_lab.model.question.setting import CLIENTS
from replication_lab.model.record.measurement import Measurement, pooled
from replication_lab.model.record.record import Record
from replication_lab.world import catalogue

# What a case may set besides its state and still be a point. Other settings are of loads with conflicts, writers on
# several nodes, slow nodes and wider send windows.
PLAIN = {"system", "path", "replicas", "conditions"}
# The figure of experiments that measure it: CPU time of the source for each commit.
SOURCE_CPU = "source_cpu_ms"
ASYNC, AFTER_COMMIT, AFTER_SYNC, GALERA, GROUP, DRBD = "async", "AFTER_COMMIT", "AFTER_SYNC", "galera", "group", "drbd"


@dataclass(frozen=True)
class LoadedSystem:
    """What is loaded: the pipeline that a commit passes, the engine, the options of its servers.

    `pipeline` is ASYNC, a wait point of semi-sync, GALERA, GROUP, or DRBD with its protocol. `storage` are the emulated
    disks of its nodes, on which flushes cost time.
    """

    pipeline: str
    engine: str
    options: ServerOptions = field(default_factory=ServerOptions)
    storage: tuple[tuple[str, Storage], ...] | None = None


@dataclass(frozen=True)
class AskedLoad:
    """What a system is under: clients that write row after row, links with a round trip in ms, replicas.

    `seconds` is how long a measured load lasted; 0 asks for the state after any beginning.
    """

    clients: int
    rtt_ms: float
    replicas: int
    seconds: float = 0


@dataclass(frozen=True)
class LoadPoint:
    """A measured case: commits a second, latencies in ms in their order, CPU time of the source for a commit if known.

    `load` has the round trip that was measured while the load ran.
    """

    case: str
    system: LoadedSystem
    load: AskedLoad
    throughput: float
    p50_ms: float
    p99_ms: float
    latencies_ms: Sequence[float] = ()
    source_cpu_ms: float | None = None


def pipeline_of(state: CaseState, topology: Topology, engine: str) -> str:
    """Return the pipeline that a commit passes; empty for a server without a copy that it could wait for."""
    if topology.replication == DRBD:
        return f"{DRBD} {state.protocol or 'C'}"
    if state.replication == "semisync":
        # The servers' own wait points.
        return state.wait_point or (AFTER_COMMIT if engine.startswith("mariadb") else AFTER_SYNC)
    return topology.replication if topology.replication in (GALERA, GROUP) else ASYNC


def points_of(record: Record) -> list[LoadPoint]:
    """Return the points of a record of an experiment or a question: rows inserted by clients that do not pause."""
    experiment = experiments.of(record)
    if experiment.asked and (experiment.asked.is_paced or not experiment.asked.makes_inserts):
        return []
    return [
        point
        for engine in record.engines
        for case in experiment.cases
        if set(case.settings) <= PLAIN | {CLIENTS, *(name for _, name in case.state.servers.variables)}
        and experiment.lab_of(case).engine in ("", engine)
        for point in _point(record, engine, case, experiment.lab_of(case))
    ]


def _point(record: Record, engine: str, case: Case, lab: LabSpec) -> Iterator[LoadPoint]:
    """Yield the point of a case, if it was measured."""
    measured = [each for each in record.quiet(engine, case.name).values() if each.figures.get("throughput")]
    if not measured or not (spread := pooled(measured)):
        return
    topology, state = catalogue.topology(lab.topology), case.state
    trip = max(0.0, _median(measured, "rtt_p50_ms")) if case.added_ms else 0.0
    rates = [float(each.figures["throughput"] or 0) for each in measured]
    seconds = median(_commits(each) / float(each.figures["throughput"] or 1) for each in measured)
    replicas = case.settings.get("replicas", 0 if state.replication == "none" else len(topology.nodes) - 1)
    cpu = _median(measured, SOURCE_CPU)
    yield LoadPoint(
        case.name,
        LoadedSystem(pipeline_of(state, topology, engine), engine, state.servers, lab.storage),
        # A load begins no statement in its last moments: those that are under way are waited for.
        AskedLoad(state.clients, trip, int(replicas), max(seconds - spread["p50_ms"] / 1000, 0.1)),
        geometric_mean(rates),
        spread["p50_ms"],
        spread["p99_ms"],
        sorted(each for one in measured for each in one.samples.get("latency_ms", [])),
        None if math.isnan(cpu) else cpu,
    )


def _commits(measured: Measurement) -> float:
    return float(measured.figures.get("commits") or len(measured.samples.get("latency_ms", [])))


def _median(measured: Sequence[Measurement], figure: str) -> float:
    found = [float(value) for each in measured if (value := each.figures.get(figure)) is not None]
    return median(found) if found else math.nan
