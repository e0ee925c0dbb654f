"""The experiment that a user's question is: its cases, what each is arranged by, and the effects that answer it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from replication_lab.model.claim import Claim
from replication_lab.model.errors import LabError
from replication_lab.model.experiment import Case, Experiment, Preset
from replication_lab.model.measuring import Watch
from replication_lab.model.proof import Proof
from replication_lab.model.quantities import Figure, latency_p50, throughput
from replication_lab.model.question import (
    CHOICES,
    CLIENTS,
    NAME,
    OWN,
    RTT,
    Effect,
    Question,
    Values,
    is_same,
    literal,
    named,
    on_which_node,
    parse_claim,
)
from replication_lab.model.relations import KnownWithin
from replication_lab.model.topology import Topology
from replication_lab.probes import galera as galera_probe
from replication_lab.probes import semisync as semisync_probe
from replication_lab.workloads.sequential_inserts import SequentialInserts
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

FEWEST_ROUNDS = 3
# Kinds of replication whose state a case can arrange and prove.
CAN = ("async", "semisync", "galera")


def can_answer(topology: Topology) -> bool:
    """Return whether a case's state can be arranged: a Galera cluster, or replicas that all follow the source."""
    follow_the_source = all(link.source == topology.source.name for link in topology.links)
    return topology.replication == "galera" or (topology.replication in CAN and follow_the_source)


def experiment_of(question: Question) -> Experiment[Lab]:
    """Return the experiment that answers a question. Raise LabError for one that its topology cannot answer."""
    topology = catalogue.topology(question.topology)
    _refuse_what_the_topology_cannot(question, topology)
    effects = list(question.effects())
    return Experiment(
        name=NAME,
        question=_sentence(question),
        topology=question.topology,
        cases=tuple(_case(values, question, topology) for values in question.combinations()),
        claims=tuple(_claims(question, effects)),
        presets={
            NAME: Preset(
                NAME,
                FEWEST_ROUNDS,
                question.rounds,
                {"seconds": question.seconds},
                max_minutes=question.max_minutes,
            )
        },
        engines=(question.engine,),
        default_engines=(question.engine,),
        workload=_workload,
        prepare=partial(_prepare, question),
        arrange=_arrange,
        asked=question,
    )


def _refuse_what_the_topology_cannot(question: Question, topology: Topology) -> None:
    if not can_answer(topology):
        able = [name for name in catalogue.topologies() if can_answer(catalogue.topology(name))]
        raise LabError(
            f"{topology.name} has {topology.replication} replication, which `lab ask` cannot arrange in this form yet",
            f"one of {', '.join(able)}",
            f"./lab ask {able[0]} …",
        )
    nodes = [node.name for node in topology.nodes]
    for name in [*question.vary, *question.settings]:
        if name in CHOICES and topology.replication == "galera":
            raise LabError(
                f"{topology.name} is a Galera cluster, which has no setting {name}",
                "a topology of a source and replicas",
                f"./lab ask semisync --vary {name}=…",
            )
        node, _ = ("", name) if name in OWN else on_which_node(name)
        if node and node not in nodes:
            raise LabError(
                f"{topology.name} has no node {node!r}", f"one of {', '.join(nodes)}", "./lab list topologies"
            )
    for values in question.combinations():
        all_values = {**question.settings, **values}
        if _replication(all_values, topology) == "semisync" != topology.replication:
            raise LabError(
                f"the servers of {topology.name} are not set up for semi-sync",
                "a topology that is",
                "./lab ask semisync …",
            )
        if "wait_point" in all_values and _replication(all_values, topology) != "semisync":
            raise LabError(
                f"case {named(values)} has a wait point but replicates by {_replication(all_values, topology)}",
                "replication=semisync, where a commit waits",
                "leave out wait_point, or give --set replication=semisync",
            )


def _replication(values: Values, topology: Topology) -> str:
    return values.get("replication", topology.replication)


def _sentence(question: Question) -> str:
    varied = " and ".join(f"{name} ({', '.join(values)})" for name, values in question.vary.items())
    fixed = f", with {named(question.settings)}" if question.settings else ""
    return f"What does {varied} change on {question.topology}{fixed}?"


def _case(values: Values, question: Question, topology: Topology) -> Case:
    every = {**question.settings, **values}
    trip = every.get(RTT, "0")
    toxics = {} if _is_bare(trip) else dict.fromkeys((link.name for link in topology.links), trip)
    for name in toxics.values():
        _refuse_what_is_no_round_trip(name)
    settings = {
        "clients": int(every.get(CLIENTS, "1")),
        "replication": _replication(every, topology),
        "wait_point": every.get("wait_point"),
        "toxics": toxics,
        "variables": {name: value for name, value in every.items() if name not in OWN},
    }
    waits = frozenset({"wait_point"}) if settings["wait_point"] == "AFTER_SYNC" else frozenset()
    return Case(named(values), named(values), settings, waits)


def _refuse_what_is_no_round_trip(name: str) -> None:
    if not catalogue.toxic(name).round_trip_ms:
        raise LabError(f"rtt is {name!r}, which sets no round trip", "a toxic with a latency", "./lab toxic")


def _is_bare(trip: str) -> bool:
    return trip in ("0", "0ms", "none", "lan")


def _claims(question: Question, effects: Sequence[Effect]) -> Iterator[Claim]:
    """Yield that each effect is known, for the throughput and the median latency, then what the user claims."""
    for effect in effects:
        at = f" with {effect.common}" if effect.common else ""
        for name, what, figure in zip(
            effect.claims, ("throughput", "commit p50"), (throughput, latency_p50), strict=True
        ):
            yield Claim(
                name,
                f"the effect of {effect.changed} on the {what}{at} is known within ±{question.margin:.0%}",
                KnownWithin(figure(effect.case).over(figure(effect.baseline)), margin=question.margin),
            )
    for number, text in enumerate(question.claims, 1):
        for part, asked in enumerate(parse_claim(text, question), 1):
            over = Figure(asked.over[1], asked.over[0])
            of = over.over(Figure(asked.under[1], asked.under[0])) if asked.under else over
            yield Claim(
                f"claim-{number}.{part}",
                asked.sentence,
                of.at_least(asked.bound) if asked.at_least else of.at_most(asked.bound),
            )


# --- the load and the state of a case ---------------------------------------------------------------------------------


def _workload(case: Case, preset: Preset) -> SequentialInserts:
    return SequentialInserts(clients=case.settings["clients"], seconds=preset.sizes["seconds"])


def _prepare(question: Question, lab: Lab) -> None:
    """Pin CPUs as for two sites, create the table and the script, and refuse a setting that a server does not take."""
    for name, values in {**{name: [value] for name, value in question.settings.items()}, **question.vary}.items():
        for value in values if name not in OWN else []:
            with _variables(lab, {name: value}):
                pass
    first = lab.topology.source.name
    lab.place((first, "load"), (*(node.name for node in lab.topology.replicas), "toxiproxy"))
    SequentialInserts().prepare(lab)


@contextmanager
def _arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set a case's variables and its replication; yield the watch that proves both over the load."""
    replicating = _cluster(lab, case) if lab.topology.replication == "galera" else _source_and_replicas(lab, case)
    with _variables(lab, case.settings["variables"]) as kept, replicating as watch:
        yield _Settings(watch, lab, kept, bare=not case.settings["toxics"])


@contextmanager
def _cluster(lab: Lab, case: Case) -> Iterator[Watch]:
    servers = [lab.node(node.name).server() for node in lab.topology.nodes]
    galera_probe.wait_until_synced(servers, len(servers))
    yield galera_probe.Watch(servers, _round_trip_ms(case), throttled=False)


@contextmanager
def _source_and_replicas(lab: Lab, case: Case) -> Iterator[Watch]:
    source = lab.node(lab.topology.source.name).server()
    replicas = [lab.node(node.name).server() for node in lab.topology.replicas]
    wanted, wait_point = case.settings["replication"], case.settings["wait_point"]
    try:
        if lab.topology.replication == "semisync":
            SemiSync(source).set(False)
        for replica in replicas:
            if wanted == "none":
                Replica(replica).stop()
            else:
                Replica(replica).start()
                Replica(replica).wait_for(BinaryLog(source).position())
        if wanted == "semisync":
            SemiSync(source).set(True, wait_point, timeout_ms=10_000)
            semisync_probe.wait_until_acknowledged(source)
        trip = _round_trip_ms(case) if wanted == "semisync" else 0
        yield semisync_probe.Watch(
            source, replicas, wanted, wait_point, "proxy", case.settings["clients"], round_trip_ms=trip
        )
    finally:
        if lab.topology.replication == "semisync":
            SemiSync(source).set(False)
        for replica in replicas:
            # Also where it should be running: a replica that was stopped by other means must not spoil the next case.
            Replica(replica).start()
            Replica(replica).wait_for(BinaryLog(source).position())


def _round_trip_ms(case: Case) -> float:
    trips = [catalogue.toxic(name).round_trip_ms for name in case.settings["toxics"].values()]
    return min(trips, default=0)


# --- variables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Set:
    """A variable that was set on a server, and what it was before."""

    server: Server
    name: str
    value: str
    before: str

    def set(self, value: str) -> None:
        self.server.execute(f"SET GLOBAL {self.name} = {literal(value)}")

    def read(self) -> str:
        return str(self.server.value(f"SELECT @@GLOBAL.{self.name}"))

    def proof(self) -> Proof:
        found = self.read()
        return Proof(
            what=f"{self.server.name} has {self.name}={self.value}",
            expected=self.value,
            found=found,
            ok=is_same(self.value, found),
        )


@contextmanager
def _variables(lab: Lab, asked: Values) -> Iterator[list[_Set]]:
    """Set variables within the block, and their former values afterwards.

    Raise LabError for a variable that a server does not know, that needs a restart, or whose value it changes.
    """
    done: list[_Set] = []
    try:
        for name, value in asked.items():
            done += [_set(lab, node, variable, value) for node, variable in _places(lab, name)]
        yield done
    finally:
        for each in reversed(done):
            with _stopped_applier(lab, each.server):
                each.set(each.before)


def _places(lab: Lab, name: str) -> list[tuple[str, str]]:
    node, variable = on_which_node(name)
    return [(each.name, variable) for each in lab.topology.nodes if node in ("", each.name)]


def _set(lab: Lab, node: str, name: str, value: str) -> _Set:
    server = lab.node(node).server()
    one = _Set(server, name, value, before="")
    one = _Set(server, name, value, before=one.read())
    with _stopped_applier(lab, server):
        one.set(value)
    if not one.proof().ok:
        found = one.read()
        one.set(one.before)
        raise LabError(f"{node} changed {name}={value} to {found}", "a value that the server keeps as it is")
    return one


def _stopped_applier(lab: Lab, server: Server) -> AbstractContextManager[None]:
    """Stop a replica's applier within the block: a server refuses to change some of its settings while it runs."""
    return _stopped(server) if _is_replica(lab, server) else nullcontext()


def _is_replica(lab: Lab, server: Server) -> bool:
    return lab.topology.replication != "galera" and server.name != lab.topology.source.name


@contextmanager
def _stopped(server: Server) -> Iterator[None]:
    Replica(server).stop()
    try:
        yield
    finally:
        Replica(server).start()


@dataclass(frozen=True)
class _Settings:
    """A watch that also proves that each variable kept its value, and that a link without a toxic has none."""

    watch: Watch
    lab: Lab
    set: list[_Set]
    bare: bool

    def figures(self) -> Mapping[str, float]:
        return self.watch.figures()

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        told = [*self.watch.proofs(commits, fastest_ms), *(each.proof() for each in self.set)]
        if not self.bare:
            return told
        slowed = [link.name for link in self.lab.topology.links if self.lab.link(link.name).toxics()]
        return [
            *told,
            Proof(what="the links are bare", expected="no toxic", found=", ".join(slowed) or "no toxic", ok=not slowed),
        ]
