"""Simulated clients of one server: each executes a statement, passes the commit pipeline, and begins again.

A closed loop with groups has no formula: who joins which group depends on when the others were answered.
"""

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy
from scipy.special import betainc

from replication_lab.model.drill.timeline import quantile
from replication_lab.predict.points import AskedLoad

Steps = Generator[Any, Any, None]
# The clients that are simulated one by one. More are simulated as so many cohorts of equal size, whose members act
# together: each of its steps takes the CPU time of all of them, and latencies are exact to a cohort's share of a turn.
COHORTS = 256
# Turns of each client of which the first are left out, where the state after any beginning is asked for.
TURNS, BEGINNING = 24, 8
# Commits after which a load ends, even if the measured one lasted longer: more of them change no figure by a percent.
MOST_COMMITS = 3000
# Loads that are simulated for each point, each with a seed of its own, as a measurement has rounds.
ROUNDS = 3
# What a commit's time is spent on.
THINKING, CPU, TRIP, FLUSH, WINDOW, GROUP = (
    *("client think time", "CPU", "round trip", "flush"),
    *("send window", "the group before it"),
)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What was measured of a system; times in ms.

    `statement` is a commit of one client without its round trips. `cpu` is the CPU time of the source's site for a
    commit, of which at most `fastest`, the fastest commit, delays the commit itself: the rest is of the client and of
    threads that send. `cpu_of_replica` is that of each further replica. `trips` are the round trips that one commit
    waits for. `think` is the client's own time before each statement. `jitter` are the deviations of single commits
    from their median, in order. `hand_over` is the time in which a lock that others wait for goes to the next one.
    `flush` is the time of all flushes of a commit, and with several clients `crowd` times as much: others use the disk
    meanwhile. `replicas` is the number with which all this was measured.
    """

    statement: float
    cpu: float
    fastest: float
    trips: float = 0
    think: float = 0
    jitter: Sequence[float] = (0.0,)
    hand_over: float = 0
    flush: float = 0
    crowd: float = 1
    cpu_of_replica: float = 0
    replicas: int = 1


@dataclass
class Simulated:
    """A simulated load: commits a second, quantiles of the latencies in ms, and what most of a turn was spent on."""

    throughput: float
    p50_ms: float
    p99_ms: float
    limit: str
    share: float


@dataclass
class SimulatedSource:
    """The server that clients write to, as a simulation: its CPU, its disk, chance, and where the time goes."""

    known: Parameters
    load: AskedLoad
    seed: int
    spent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env = simpy.Environment()
        self.chance = random.Random(self.seed)
        self.cpu = simpy.Resource(self.env)
        self.cohorts = min(self.load.clients, COHORTS)
        self.weight = self.load.clients / self.cohorts
        further = max(self.load.replicas - self.known.replicas, 0) * self.known.cpu_of_replica
        self.cpu_ms = self.known.cpu + further

    def timed(self, what: str, steps: Steps) -> Steps:
        """Take these steps, and add their time to what the time was spent on."""
        begun = self.env.now
        yield from steps
        self.spent[what] = self.spent.get(what, 0) + self.env.now - begun

    def using(self, resource: simpy.Resource, ms: float) -> Steps:
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(ms)

    def pause(self, ms: float) -> Steps:
        yield self.env.timeout(max(ms, 0))

    def jitter(self, waited_for: Callable[[int], int] | None = None) -> float:
        """Return the deviation in ms of the answer that ends a wait: the n-th of those of all replicas.

        `waited_for` gives n for a number of replicas; None is a wait for no replica. The n-th of many equally
        distributed values is one value at a share that has the Beta distribution, so that 500 replicas cost as much as
        one. The measured deviations are those of the n-th of the replicas that were there.
        """
        now, then = max(self.load.replicas, 1), max(self.known.replicas, 1)
        share = self.chance.random()
        if waited_for and now != then:
            drawn = self.chance.betavariate(waited_for(now), now - waited_for(now) + 1)
            share = float(betainc(waited_for(then), then - waited_for(then) + 1, drawn))
        return self.known.jitter[min(int(share * len(self.known.jitter)), len(self.known.jitter) - 1)]

    def trip(self, waited_for: Callable[[int], int] | None) -> float:
        """Return the time in ms until the answers that are waited for are there: the round trips and what is beside."""
        return self.known.trips * self.load.rtt_ms + self.rest + self.jitter(waited_for)

    @property
    def rest(self) -> float:
        """The time in ms of a statement that is neither CPU nor flush: threads that wake up, packets on the way."""
        return max(self.known.statement - min(self.known.cpu, self.known.fastest) - self.known.flush, 0)


class Groups:
    """A stage that a group of commits passes as one, while the next group gathers; `places` groups at a time."""

    def __init__(self, source: SimulatedSource, waited: str, passing: str, places: int = 1) -> None:
        self.source, self.waited, self.passing = source, waited, passing
        self.places, self.gathering = simpy.Resource(source.env, places), list[tuple[simpy.Event, simpy.Event]]()

    def joined(self) -> Steps:
        """Gather with others, and pass the stage with them."""
        begun, ended = self.source.env.event(), self.source.env.event()
        self.gathering.append((begun, ended))
        if len(self.gathering) == 1:
            self.source.env.process(self._lead())
        yield from self.source.timed(self.waited, _until(begun))
        yield from self.source.timed(self.passing, _until(ended))

    def _lead(self) -> Steps:
        with self.places.request() as place:
            contended = not place.triggered
            yield place
            yield from self.source.pause(self.hand_over() if contended else 0)
            group, self.gathering = self.gathering, []
            for begun, _ in group:
                begun.succeed()
            left = yield from self.passed()
        yield from left
        for _, ended in group:
            ended.succeed()

    def hand_over(self) -> float:
        """Return the time in ms in which a place goes to a group that waited for it."""
        return 0

    def passed(self) -> Generator[Any, Any, Steps]:
        """Pass the stage in the group's place; return the steps that it takes after leaving the place."""
        raise NotImplementedError


def _until(event: simpy.Event) -> Steps:
    yield event


class Flush(Groups):
    """One flush at a time of the one disk."""

    def passed(self) -> Generator[Any, Any, Steps]:
        known = self.source.known
        yield from self.source.pause(known.flush * (known.crowd if self.source.load.clients > 1 else 1))
        return self.source.pause(0)


class Pipeline:
    """What a commit waits for; this one is of a server that waits for nobody but its own disk."""

    def __init__(self, source: SimulatedSource) -> None:
        self.source = source
        self.flush = Flush(source, FLUSH, FLUSH)

    def commit(self) -> Steps:
        if self.source.known.flush:
            yield from self.flush.joined()
        yield from self.replicated()

    def replicated(self) -> Steps:
        yield from self.source.timed(CPU, self.source.pause(self.source.rest + self.source.jitter()))


def simulated(
    known: Parameters, load: AskedLoad, pipeline: Callable[[SimulatedSource], Pipeline], seed: int
) -> Simulated:
    """Return what the clients of a load would measure."""
    sources = [SimulatedSource(known, load, seed + number) for number in range(ROUNDS)]
    rates, latencies = [], list[float]()
    for source in sources:
        done = _ended(source, pipeline(source))
        # Where the state after any beginning is asked for, the moment after the turns that are left out.
        begun, ended = 0.0 if load.seconds else done[BEGINNING * source.cohorts][0], done[-1][0]
        counted = [latency for at, latency in done if at > begun]
        rates.append(1000 * source.weight * len(counted) / (ended - begun))
        latencies += counted
    spent = {what: sum(each.spent.get(what, 0) for each in sources) for each in sources for what in each.spent}
    limit, whole = max(spent, key=lambda what: spent[what]), sum(spent.values())
    latencies.sort()
    return Simulated(
        sum(rates) / ROUNDS, quantile(latencies, 0.5), quantile(latencies, 0.99), limit, spent[limit] / whole
    )


def _ended(source: SimulatedSource, pipeline: Pipeline) -> list[tuple[float, float]]:
    """Run a load; return the moment and the latency in ms of each commit, in order of time."""
    done: list[tuple[float, float]] = []
    for _ in range(source.cohorts):
        source.env.process(_client(source, pipeline, done))
    source.env.run()
    return done


def _client(source: SimulatedSource, pipeline: Pipeline, done: list[tuple[float, float]]) -> Steps:
    load, env = source.load, source.env
    number = 0
    while env.now < 1000 * load.seconds and len(done) < MOST_COMMITS if load.seconds else number < TURNS:
        number += 1
        yield from source.timed(THINKING, source.pause(source.known.think))
        begun = env.now
        before = source.weight * min(source.cpu_ms, source.known.fastest)
        yield from source.timed(CPU, source.using(source.cpu, before))
        if (beside := source.weight * source.cpu_ms - before) > 0:
            env.process(source.using(source.cpu, beside))
        yield from pipeline.commit()
        done.append((env.now, env.now - begun))
