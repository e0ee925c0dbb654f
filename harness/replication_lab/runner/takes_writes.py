"""Which servers of a source and its replicas take writes: each is asked for its `read_only`, all through a load."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.checkers import Window
from replication_lab.model.drill.writable import LONGEST_GAP_SECONDS
from replication_lab.model.lab import mysql_errors
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# A later answer is no reading. A server that was frozen has to be read soon after it goes on.
ANSWER_SECONDS = 0.5
# A server that has not said for longer that it takes writes does not take them now.
VALID_SECONDS = 0.5


class TakesWrites:
    """The readings of one drill, by node."""

    def __init__(self, lab: Lab):
        self._lab = lab
        self._readings: dict[str, list[tuple[float, bool]]] = {}
        # When each node was asked last, and the times in which it was asked and was not there.
        self._asked: dict[str, float] = {}
        self._absent: dict[str, list[Window]] = {}
        self._zero = self._ended = clock.timer()

    @contextmanager
    def watched(self, zero: float) -> Iterator[None]:
        """Ask each server of a source and its replicas within the block; times are told in seconds after `zero`."""
        self._zero = zero
        if not replication.kind_of(self._lab.topology).follows_a_source:
            yield
            return
        self._readings = {node.name: [] for node in self._lab.topology.nodes}
        self._absent = {node: [] for node in self._readings}
        readings = dict.fromkeys(self._readings, self._read)
        with closing(Sampled("", self._lab, readings, self._reach, self._is_running)):
            try:
                yield
            finally:
                self._ended = clock.timer()

    def _reach(self, lab: Lab, node: str) -> Server:
        self._asked[node] = clock.timer()
        return lab.node(node).server().answering_within(ANSWER_SECONDS)

    def _read(self, server: Server) -> list[str]:
        self._asked[server.name] = clock.timer()
        try:
            takes_writes = not server.value("SELECT @@GLOBAL.read_only")
        except LabError as error:
            # As of a server that starts or stops: no client reaches it either.
            if mysql_errors.is_refused(error.__cause__):
                self._note_absent(server.name)
            raise
        self._readings[server.name].append((clock.timer(), takes_writes))
        return []

    def _is_running(self, lab: Lab, node: str) -> bool:
        """Return whether a node that did not answer runs; one that was ended or frozen takes no writes."""
        running = lab.node(node).state()[0] == "running"
        if not running:
            self._note_absent(node)
        return running

    def _note_absent(self, node: str) -> None:
        self._absent[node].append((self._asked[node], clock.timer()))

    def silent_s(self, node: str) -> float:
        """Return for how many seconds a node has not said that it takes writes; infinite if it never did."""
        return clock.timer() - max((at for at, takes in self._readings.get(node, []) if takes), default=-math.inf)

    def now(self) -> list[str]:
        """Return the nodes that take writes now."""
        return [node for node in self._readings if self.silent_s(node) <= VALID_SECONDS]

    def begun(self) -> list[tuple[float, str]]:
        """Return each time at which a node took writes that had refused them before, with the node, in order."""
        return sorted(
            (round(at - self._zero, 3), node)
            for node, own in self._readings.items()
            for (_, before), (at, after) in pairwise([*own])
            if after and not before
        )

    def spans(self) -> dict[str, list[tuple[float, float]]]:
        """Return from when until when each node took writes; nothing of one that never did."""
        found = {node: spans(own, self._zero, self._absent.get(node, [])) for node, own in self._readings.items()}
        return {node: own for node, own in found.items() if own}

    def seen(self) -> dict[str, Any]:
        """Return what evidence has of it: when each node took writes, when it was not read, and how often it was."""
        found = {
            node: gaps([at for at, _ in own], self._absent[node], self._zero, self._ended)
            for node, own in self._readings.items()
        }
        lasted = [(node, gap, gap[1] - gap[0]) for node, own in found.items() for gap in own]
        unread: dict[str, list[Window]] = {}
        for node, gap, seconds in lasted:
            if seconds > LONGEST_GAP_SECONDS:
                unread.setdefault(node, []).append(gap)
        every = max((seconds for _, _, seconds in lasted if seconds <= LONGEST_GAP_SECONDS), default=0.0)
        return {"writable": self.spans(), "unread": unread, "read_every_s": round(every, 3)}


def spans(readings: Sequence[tuple[float, bool]], zero: float, absent: Sequence[Window] = ()) -> list[Window]:
    """Return from when until when a server took writes; a reading counts until the next one, or until its absence.

    If none follows within LONGEST_GAP_SECONDS it counts for VALID_SECONDS: then more is not known.
    """
    found: list[Window] = []
    moments = sorted([*readings, *((begin, False) for begin, _ in absent), (math.inf, False)])
    for (at, takes_writes), (later, _) in pairwise(moments):
        until = later if later - at <= LONGEST_GAP_SECONDS else at + VALID_SECONDS
        begin, end = round(at - zero, 3), round(until - zero, 3)
        if takes_writes and end > 0:
            joined = found.pop()[0] if found and found[-1][1] == begin else max(begin, 0.0)
            found.append((joined, end))
    return found


def gaps(read_at: Sequence[float], absent: Sequence[Window], begin: float, end: float) -> list[Window]:
    """Return from when until when a server was neither read nor absent, in seconds after `begin`."""
    found, known = list[Window](), begin
    for since, until in sorted([*((at, at) for at in read_at), *absent, (end, end)]):
        if begin <= known < since <= end:
            found.append((round(known - begin, 3), round(since - begin, 3)))
        known = max(known, until)
    return found
