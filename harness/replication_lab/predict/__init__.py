"""Predictions for loads and distances that no machine at hand can measure, simulated from what a record measured.

A prediction is no verdict: it is as true as its pipeline and its parameters, and the points beside it show how true.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product

from replication_lab.experiments.question.disks import storage_of
from replication_lab.experiments.question.experiment import state_of
from replication_lab.experiments.question.topologies import (
    refuse_missing_setting,
    refuse_what_a_case_cannot,
    round_trip_of,
)
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.quantity import COUNT
from replication_lab.model.question.prediction import MeasuredPoint, Predicted, Prediction
from replication_lab.model.question.setting import CLIENTS, ENGINE, RTT, Values, named, setting
from replication_lab.model.question.validation import refuse_bad_setting
from replication_lab.model.record.record import RunOpening
from replication_lab.predict import fit
from replication_lab.predict.pipelines import PIPELINES
from replication_lab.predict.points import (
    AFTER_SYNC,
    ASYNC,
    DRBD,
    GROUP,
    AskedLoad,
    LoadedSystem,
    LoadPoint,
    pipeline_of,
    points_of,
)
from replication_lab.predict.simulation import CPU, Parameters, simulated
from replication_lab.world import catalogue
from replication_lab.world.journal import names, read

REPLICAS = "replicas"
MOST_CLIENTS, MOST_REPLICAS, MOST_POINTS = 1_000_000, 10_000, 200
# MySQL's own limit.
MOST_MEMBERS = 9
# Settings of `lab ask` that no pipeline has.
UNKNOWN = ("rate", "endpoint", "manager")
# Round trips that differ by less than this share count as the same.
SAME_TRIP = 0.1
# Which figures of a pipeline did not agree with measurements within 15 %, or were compared with too few.
NOT_VALIDATED = {
    AFTER_SYNC: "p50 of AFTER_SYNC",
    GROUP: "any figure of a group",
    f"{DRBD} B": "any figure of protocol B below 10 ms",
    "disks": "p99 of servers on emulated disks",
}
EXAMPLE = "./lab ask semisync --vary rtt=5ms,40ms --vary clients=1,16"


@dataclass(frozen=True)
class AskedPoint:
    """A point of the question: its topology, its settings, and what they mean for a simulation."""

    topology: str
    values: Values
    system: LoadedSystem
    load: AskedLoad


def asked(topologies: Sequence[str], axes: Mapping[str, list[str]], engine: str = "") -> list[AskedPoint]:
    """Return all points of a question. Raise LabError for one that is impossible, or that no pipeline can answer."""
    for name, values in axes.items():
        if name == REPLICAS:
            for value in values:
                COUNT.parse(value, REPLICAS, 1, MOST_REPLICAS)
        elif name in UNKNOWN or setting(name).is_file:
            raise LabError(f"no prediction depends on {name}", "settings of a commit pipeline", f"leave out {name}")
        else:
            refuse_bad_setting(name, values, MOST_CLIENTS)
    found = [
        _point(topology, dict(zip(axes, values, strict=True)), axes, engine)
        for topology in topologies
        for values in product(*axes.values())
    ]
    if len(found) > MOST_POINTS:
        raise LabError(f"the question has {len(found)} points", f"at most {MOST_POINTS}", "give fewer values")
    return found


def _point(topology_name: str, values: Values, axes: Mapping[str, list[str]], engine: str) -> AskedPoint:
    topology = catalogue.topology(topology_name)
    settings = {name: value for name, value in values.items() if name != REPLICAS}
    for name in settings:
        refuse_missing_setting(setting(name), topology)
    refuse_what_a_case_cannot(settings, named(values), topology)
    state, toxic = state_of(settings, topology), round_trip_of(settings)
    server = settings.get(ENGINE) or engine or catalogue.default_engine(topology_name)
    pipeline = pipeline_of(state, topology, server)
    replicas = int(values.get(REPLICAS, len(topology.nodes) - 1))
    most = {GROUP: MOST_MEMBERS - 1}.get(pipeline, 1 if pipeline.startswith(DRBD) else MOST_REPLICAS)
    if replicas > most or (REPLICAS in values and not topology.links):
        raise LabError(
            f"{topology_name} cannot have {replicas} replicas",
            f"at most {most if topology.links else 0}",
            f"leave out --replicas, or {topology_name}",
        )
    storage = storage_of(settings, {name: each for name, each in axes.items() if name in settings}, topology)
    trip = toxic.round_trip_ms if toxic else 0
    system = LoadedSystem(pipeline, server, state.servers, storage)
    return AskedPoint(topology_name, values, system, AskedLoad(state.clients, trip, replicas))


def measured(runs: Sequence[str], wanted: Sequence[AskedPoint]) -> tuple[list[str], list[LoadPoint]]:
    """Return the names of the records to fit from, and their points: those given, else the newest usable run."""
    if runs:
        found = [read(run) for run in runs]
        points = [point for _, record in found for point in points_of(record)]
        if lacking := _lacking(points, wanted):
            raise _unusable(f"{', '.join(runs)}: no point", lacking)
        return [folder.name for folder, _ in found], points
    for name in reversed(names()):
        with suppress(LabError):
            folder, record = read(name)
            points = points_of(record) if isinstance(record.opening, RunOpening) else []
            if not _lacking(points, wanted):
                return [folder.name], points
    raise _unusable("no run under runs/ has points", wanted[0])


def _lacking(points: Sequence[LoadPoint], wanted: Sequence[AskedPoint]) -> AskedPoint | None:
    return next((each for each in wanted if not _of(each.system, points)), None)


def _unusable(found: str, lacking: AskedPoint) -> LabError:
    return LabError(
        f"{found} of {lacking.topology} ({lacking.system.pipeline}, {lacking.system.engine}) with the same options",
        "a record of rows inserted by one client and by several, at the distances that the lab can make",
        EXAMPLE.replace("semisync", lacking.topology),
    )


def _of(system: LoadedSystem, points: Sequence[LoadPoint]) -> list[LoadPoint]:
    return [point for point in points if point.system == system]


def predicted(
    wanted: Sequence[AskedPoint], sources: Sequence[str], points: Sequence[LoadPoint], seed: int
) -> Prediction:
    """Return what the simulations say of each point that is asked, and of each measured point among them."""
    rows, parameters = list[Predicted](), dict[str, dict[str, float]]()
    for name, system in _systems(wanted):
        of_system = _of(system, points)
        known = fit.fitted(of_system, points)
        values = {name: value for name, value in asdict(known).items() if isinstance(value, (int, float))}
        parameters[f"{name} ({system.pipeline})"] = {name: round(value, 4) for name, value in values.items()}
        asked_here = [each for each in wanted if each.topology == name and each.system == system]
        for each in sorted([*asked_here, *_between(asked_here, of_system)], key=lambda each: _coordinates(each.load)):
            if is_same_as := next((point for point in of_system if _is_same(point.load, each.load)), None):
                each = replace(each, load=is_same_as.load)  # noqa: PLW2901 - the round trip and length that were measured
            rows.append(_predicted(each, of_system, known, is_same_as, seed))
    return Prediction(rows, list(sources), parameters, seed)


def _systems(wanted: Sequence[AskedPoint]) -> list[tuple[str, LoadedSystem]]:
    found = list[tuple[str, LoadedSystem]]()
    for each in wanted:
        if (each.topology, each.system) not in found:
            found.append((each.topology, each.system))
    return found


def _is_same(one: AskedLoad, other: AskedLoad) -> bool:
    near = abs(one.rtt_ms - other.rtt_ms) <= SAME_TRIP * max(one.rtt_ms, other.rtt_ms)
    return near and (one.clients, one.replicas) == (other.clients, other.replicas)


def _between(wanted: Sequence[AskedPoint], points: Sequence[LoadPoint]) -> list[AskedPoint]:
    """Return the measured points inside of what is asked that are not asked themselves."""
    loads = [each.load for each in wanted]
    ranges = list(zip(*map(_coordinates, loads), strict=True))
    inside = [
        point.load
        for point in points
        if all(_is_within(at, seen) for at, seen in zip(_coordinates(point.load), ranges, strict=True))
        and not any(_is_same(point.load, load) for load in loads)
    ]
    return [replace(wanted[0], values=_values(wanted[0].values, load), load=load) for load in inside]


def _coordinates(load: AskedLoad) -> tuple[float, float, float]:
    return load.clients, float(load.rtt_ms), load.replicas


def _values(like: Values, load: AskedLoad) -> Values:
    here = {CLIENTS: str(load.clients), RTT: f"{load.rtt_ms:.0f}ms", REPLICAS: str(load.replicas)}
    return {name: here.get(name, value) for name, value in like.items()}


def _predicted(
    each: AskedPoint, points: Sequence[LoadPoint], known: Parameters, same: LoadPoint | None, seed: int
) -> Predicted:
    found = simulated(fit.with_jitter(known, points, each.load), each.load, PIPELINES[each.system.pipeline], seed)
    return Predicted(
        each.topology,
        each.values,
        found.throughput,
        found.p50_ms,
        found.p99_ms,
        found.limit,
        found.share,
        [] if same else list(_outside(each.load, points, known)),
        list(_not_validated(each, found.limit)),
        MeasuredPoint(same.case, same.throughput, same.p50_ms, same.p99_ms) if same else None,
    )


def _outside(load: AskedLoad, points: Sequence[LoadPoint], known: Parameters) -> Iterable[str]:
    for name, unit, at, seen in zip(
        ("clients", "round trip", "replicas"),
        ("", " ms", ""),
        _coordinates(load),
        zip(*(_coordinates(point.load) for point in points), strict=True),
        strict=True,
    ):
        if not _is_within(at, seen):
            low, high = round(min(seen)), round(max(seen))
            yield f"{name} outside of {low}{f'–{high}' if high > low else ''}{unit}, which was measured"
    if load.clients > max(p.load.clients for p in points) and not fit.is_saturated(known, points):
        yield "no measured load used all of the CPU, so the limit by the CPU is not known"
    if load.replicas > known.replicas and not known.cpu_of_replica:
        yield "the CPU time of a further replica was not measured, and counts as none"


def _is_within(at: float, seen: Sequence[float]) -> bool:
    """Return whether a value is inside of others, or differs from the nearest one as round trips do."""
    slack = SAME_TRIP if isinstance(at, float) else 0
    return min(seen) * (1 - slack) <= at <= max(seen) * (1 + slack)


def _not_validated(each: AskedPoint, limit: str) -> Iterable[str]:
    """Yield which figures did not agree with measurements, or were compared with too few."""
    system = each.system
    if not system.engine.startswith("mariadb"):
        yield f"any figure of {system.engine}"
    elif found := NOT_VALIDATED.get("disks" if system.storage else system.pipeline):
        yield found
    if each.load.clients > 1 and system.pipeline.startswith((ASYNC, DRBD)) and not system.storage:
        yield f"{system.pipeline} with several clients"
    if limit == CPU:
        yield "where the CPU is the limit, measured throughput differed by up to a half, and p99 was twice as long"
