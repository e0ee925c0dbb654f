"""Which servers of a source and its replicas take writes: each is asked for its `read_only`, all through a load."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise

from replication_lab import replication
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# A server that does not answer takes no write either.
VALID_SECONDS = 0.5


class TakesWrites:
    """The readings of one drill, by node."""

    def __init__(self, lab: Lab):
        self._lab = lab
        self._readings: dict[str, list[tuple[float, bool]]] = {}
        self._zero = clock.timer()

    @contextmanager
    def watched(self, zero: float) -> Iterator[None]:
        """Ask each server of a source and its replicas within the block; times are told in seconds after `zero`."""
        self._zero = zero
        if not replication.kind_of(self._lab.topology).follows_a_source:
            yield
            return
        self._readings = {node.name: [] for node in self._lab.topology.nodes}
        with closing(Sampled("", self._lab, dict.fromkeys(self._readings, self._read))):
            yield

    def _read(self, server: Server) -> list[str]:
        takes_writes = not server.value("SELECT @@GLOBAL.read_only")
        self._readings[server.name].append((clock.timer(), takes_writes))
        return []

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
        return {node: found for node, own in self._readings.items() if (found := spans(own, self._zero))}


def spans(readings: Sequence[tuple[float, bool]], zero: float) -> list[tuple[float, float]]:
    """Return from when until when a server took writes; a reading counts until the next, for VALID_SECONDS at most."""
    found: list[tuple[float, float]] = []
    for (at, takes_writes), (later, _) in pairwise([*readings, (math.inf, False)]):
        begin, end = round(at - zero, 3), round(min(later, at + VALID_SECONDS) - zero, 3)
        if takes_writes and end > 0:
            joined = found.pop()[0] if found and found[-1][1] == begin else max(begin, 0.0)
            found.append((joined, end))
    return found
