"""Which transaction depends on which, from the versions that they read and wrote (Adya 1999; Kingsbury, Elle, 2020).

A version follows another one if a list shows both, or if a transaction read the one before it wrote the other. So the
order of versions is known only where something shows it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from replication_lab.model.core.groups import grouped
from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.transactions import Key, SeenTransaction, Version, external_reads


class How(StrEnum):
    """How a transaction depends on an earlier one: it overwrote it, it read from it, or it overwrote what that read."""

    OVERWROTE = "ww"
    READ_FROM = "wr"
    OVERWROTE_READ = "rw"


class Edge(NamedTuple):
    """The transaction `after` comes after `before`, because of the row `key`; both are places in the history."""

    before: int
    after: int
    how: How
    key: Key


@dataclass(frozen=True)
class Dependencies:
    """The versions of all rows in a history, and the edges between its transactions that committed.

    `final` are the lists at the end, by row.
    """

    history: Sequence[SeenTransaction]
    final: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def writers(self) -> dict[tuple[Key, Version], int]:
        """Return which transaction made each version."""
        return {
            (op.key, op.value): place
            for place, each in enumerate(self.history)
            for op in each.ops
            if not op.reads and op.value is not None
        }

    @cached_property
    def committed(self) -> set[int]:
        """Return the transactions that were acknowledged, and those of unknown outcome of which something was read."""
        seen = {self.writers.get((key, version)) for key, version in self._read_versions}
        return {
            place
            for place, each in enumerate(self.history)
            if each.outcome is Outcome.ACKNOWLEDGED or (each.outcome is Outcome.UNKNOWN and place in seen)
        }

    @cached_property
    def _read_versions(self) -> set[tuple[Key, Version]]:
        read = {
            (op.key, version)
            for each in self.history
            if each.outcome is Outcome.ACKNOWLEDGED
            for op in each.ops
            if op.reads
            for version in (op.elements or [op.value])
        }
        return read | {(key, version) for key, elements in self.final.items() for version in elements}

    @cached_property
    def lists(self) -> dict[Key, tuple[int, ...]]:
        """Return the longest version of each list that was read, at the end too."""
        longest = dict(self.final)
        for _, key, elements in self.read_lists:
            # What was rolled back is in no order.
            kept = tuple(version for version in elements if self.writers.get((key, version)) in self.committed)
            if len(kept) > len(longest.get(key, ())):
                longest[key] = kept
        return longest

    @property
    def read_lists(self) -> Iterator[tuple[int, Key, tuple[int, ...]]]:
        """Yield the lists that committed transactions read: the transaction, the row, the elements."""
        for place in sorted(self.committed):
            for op in self.history[place].ops:
                if op.reads and op.elements is not None:
                    yield place, op.key, op.elements

    @cached_property
    def successors(self) -> dict[tuple[Key, Version], set[Version]]:
        """Return the versions that directly follow each one. Several follow one that several writers had read."""
        found = defaultdict[tuple[Key, Version], set[Version]](set)
        for key, elements in self.lists.items():
            for before, after in pairwise((None, *elements)):
                found[key, before].add(after)
        for place in self.committed:
            last = dict[Key, Version]()
            for op in self.history[place].ops:
                # The order of a list is that of its elements; a transaction knows only what it read.
                if op.does == "write" and op.key in last:
                    found[op.key, last[op.key]].add(op.value)
                last[op.key] = op.value
        return dict(found)

    @cached_property
    def edges(self) -> list[Edge]:
        found = set[Edge]()
        for (key, version), following in self.successors.items():
            maker = self.writers.get((key, version))
            for after in following:
                found |= self._edge(maker, self.writers.get((key, after)), How.OVERWROTE, key)
        for place in self.committed:
            for key, version in external_reads(self.history[place].ops):
                found |= self._edge(self.writers.get((key, version)), place, How.READ_FROM, key)
                for after in self.successors.get((key, version), ()):
                    found |= self._edge(place, self.writers.get((key, after)), How.OVERWROTE_READ, key)
        return sorted(found)

    def _edge(self, before: int | None, after: int | None, how: How, key: Key) -> set[Edge]:
        known = before is not None and after is not None and before != after
        return {Edge(before, after, how, key)} if known and {before, after} <= self.committed else set()  # type: ignore[arg-type]

    def overwritten_at(self, key: Key, version: Version) -> float:
        """Return when a client first knew that a version was overwritten: at the end of a transaction that did so."""
        return self._overwritten.get((key, version), math.inf)

    @cached_property
    def _overwritten(self) -> dict[tuple[Key, Version], float]:
        found, ends = dict[tuple[Key, Version], float](), dict[tuple[Key, Version], float]()
        for start in self.successors:
            path = [(start, False)]
            while path:
                (key, version), ready = path.pop()
                following = [(key, after) for after in self.successors.get((key, version), ())]
                if ready:
                    found[key, version] = min((ends[each] for each in following if each in ends), default=math.inf)
                    ends[key, version] = min(found[key, version], self._acknowledged_at(key, version))
                elif (key, version) not in ends:
                    ends[key, version] = math.inf
                    path += [((key, version), True), *((each, False) for each in following)]
        return found

    def _acknowledged_at(self, key: Key, version: Version) -> float:
        place = self.writers.get((key, version))
        acknowledged = place is not None and self.history[place].outcome is Outcome.ACKNOWLEDGED
        return self.history[place].ended if acknowledged and place is not None else math.inf


def strongly_connected(edges: Iterable[Edge]) -> list[set[int]]:
    """Return the sets of two or more transactions of which each depends on each other one."""
    pairs = np.array([(edge.before, edge.after) for edge in edges], dtype=int).reshape(-1, 2)
    if not len(pairs):
        return []
    size = int(pairs.max()) + 1
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    _, labels = connected_components(graph, directed=True, connection="strong")
    together = defaultdict[int, set[int]](set)
    for place, label in enumerate(labels):
        together[int(label)].add(place)
    return [each for each in together.values() if len(each) > 1]


# The edges that leave each transaction.
Ways = Mapping[int, Sequence[Edge]]


def ways(edges: Iterable[Edge]) -> Ways:
    return grouped((edge.before, edge) for edge in edges)


def shortest_way(leaving: Ways, begin: int, end: int) -> list[Edge]:
    """Return the fewest edges that lead from one transaction to another; none if none do."""
    came: dict[int, Edge | None] = {begin: None}
    level = [begin]
    while level and end not in came:
        reached = []
        for edge in (edge for place in level for edge in leaving.get(place, ())):
            if edge.after not in came:
                came[edge.after] = edge
                reached.append(edge.after)
        level = reached
    way, last = list[Edge](), came.get(end)
    while last is not None:
        way.append(last)
        last = came[last.before]
    return way[::-1]
