"""The commit pipelines: what a commit waits for in each kind of replication."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import simpy

from replication_lab.predict.points import AFTER_COMMIT, AFTER_SYNC, ASYNC, DRBD, GALERA, GROUP
from replication_lab.predict.simulation import GROUP as BEFORE
from replication_lab.predict.simulation import TRIP, WINDOW, Groups, Pipeline, SimulatedSource, Steps

# The steps of a group in its place, which return those after it.
Moving = Generator[Any, Any, Steps]
# Messages of its own that a Galera node has under way: the default of evs.user_send_window.
SEND_WINDOW = 2


def _first(_replicas: int) -> int:
    return 1


def _majority(replicas: int) -> int:
    """Return how many others make a majority with the primary."""
    return (replicas + 1) // 2


def _last(replicas: int) -> int:
    return replicas


class ByItself(Pipeline):
    """Each commit waits by itself for the answers of some replicas, of which `answers` gives the number."""

    def __init__(self, source: SimulatedSource, answers: Callable[[int], int]) -> None:
        super().__init__(source)
        self.answers = answers

    def replicated(self) -> Steps:
        yield from self.source.timed(TRIP, self.source.pause(self.source.trip(self.answers)))


class InGroups(Pipeline):
    """A pipeline of a stage that several commits pass as one; `waited` is what the time before it is spent on."""

    def __init__(self, source: SimulatedSource, stage: type[Groups], waited: str = TRIP, places: int = 1) -> None:
        super().__init__(source)
        self.group = stage(source, waited, TRIP, places)

    def replicated(self) -> Steps:
        yield from self.group.joined()


class LockedLog(Groups):
    """The binary log of MariaDB, which a leader keeps locked until the group before its own is acknowledged."""

    def __init__(self, source: SimulatedSource, waited: str, passing: str, places: int) -> None:
        super().__init__(source, waited, passing, places)
        self.acknowledging, self.last = simpy.Resource(source.env), 0.0

    def hand_over(self) -> float:
        mean = self.source.known.hand_over
        return self.source.chance.expovariate(1 / mean) if mean else 0

    def passed(self) -> Moving:
        # One connection acknowledges in order.
        self.last = max(self.last, self.source.env.now + self.source.trip(_first))
        turn = self.acknowledging.request()
        yield turn
        return self._acknowledged(turn, self.last)

    def _acknowledged(self, turn: simpy.resources.resource.Request, at: float) -> Steps:
        yield from self.source.pause(at - self.source.env.now)
        self.acknowledging.release(turn)


class SendWindow(Groups):
    """Messages of a Galera node with the write sets of all commits that waited.

    A message leaves the window after a round trip, when each node has acknowledged it. It is delivered in the order of
    all nodes, which takes `trips` round trips; then it is certified and committed.
    """

    def passed(self) -> Moving:
        source = self.source
        whole = source.trip(_last)
        acknowledged = min(min(source.known.trips, 1) * source.load.rtt_ms + source.rest, whole)
        yield from source.pause(acknowledged)
        return source.pause(whole - acknowledged)


class LogWrite(Groups):
    """A write of the redo log to a disk that DRBD replicates: a round trip under protocols B and C, none under A."""

    def passed(self) -> Moving:
        yield from self.source.pause(self.source.trip(None))
        return self.source.pause(0)


PIPELINES: dict[str, Callable[[SimulatedSource], Pipeline]] = {
    ASYNC: Pipeline,
    # Until the first replica has acknowledged it.
    AFTER_COMMIT: partial(ByItself, answers=_first),
    # Of MariaDB: two groups of commits are on their way at most, and others gather.
    AFTER_SYNC: partial(InGroups, stage=LockedLog, waited=BEFORE),
    # A node has SEND_WINDOW messages of its own under way.
    GALERA: partial(InGroups, stage=SendWindow, waited=WINDOW, places=SEND_WINDOW),
    # Until a majority agreed on its place in the order.
    GROUP: partial(ByItself, answers=_majority),
    # InnoDB writes its log for one group of commits at a time, and the write ends when the protocol says so.
    **{f"{DRBD} {protocol}": partial(InGroups, stage=LogWrite) for protocol in "ABC"},
}
