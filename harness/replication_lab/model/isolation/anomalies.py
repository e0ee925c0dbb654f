"""The anomalies in a history of transactions, each with its shortest example in words."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from replication_lab.model.drill.history import Outcome
from replication_lab.model.isolation.dependencies import Dependencies, Edge, How, shortest_way, strongly_connected, ways
from replication_lab.model.isolation.transactions import Key, Op, SeenTransaction, Version, external_reads


class Kind(msgspec.Struct, frozen=True):
    """A kind of anomaly: its name in the literature, and what happened, in words."""

    known_as: str
    says: str


class Anomaly(msgspec.Struct, frozen=True):
    """One anomaly: the transactions that show it, as places in the history, and how they depend on each other."""

    kind: str
    places: tuple[int, ...]
    edges: tuple[Edge, ...] = ()
    key: Key | None = None


# The kinds of anomalies by the name of their figure (Adya 1999; Berenson et al. 1995 for P2 and P4).
KINDS = {
    "dirty_reads": Kind("G1a", "a transaction read what another one wrote and rolled back"),
    "intermediate_reads": Kind("G1b", "a transaction read what another one wrote and overwrote before it committed"),
    "nonrepeatable_reads": Kind("P2", "a transaction read one row twice and found different values"),
    "own_writes_missed": Kind("internal", "a transaction did not read what it had written itself"),
    "lost_updates": Kind("P4", "transactions read the same version of a row and all of them overwrote it"),
    "vanished_writes": Kind("lost append", "an acknowledged write is in no version that a later read or the end shows"),
    "stale_reads": Kind(
        "stale read",
        "a transaction read a version that was overwritten, and acknowledged, before it began",
    ),
    "write_cycles": Kind("G0", "transactions overwrote each other in opposite orders on two rows"),
    "read_cycles": Kind("G1c", "transactions read or overwrote each other in a circle"),
    "fractured_reads": Kind("fractured read", "a transaction read one write of another one and missed a second one"),
    "read_skews": Kind("G-single", "a circle of transactions in which one read what was overwritten later"),
    "write_skews": Kind("G2-item", "a circle of transactions in which several read what was overwritten later"),
}


def anomalies(history: Sequence[SeenTransaction], final: Mapping[Key, tuple[int, ...]] | None = None) -> list[Anomaly]:
    """Return the anomalies in a history, of each kind the shortest first; `final` are the lists at the end, by row."""
    found = Dependencies(history, final or {})
    every = [
        *_reads_of_versions(found),
        *_within_transactions(found),
        *_lost_updates(found),
        *_vanished_writes(found),
        *_stale_reads(found),
        *_cycles(found),
    ]
    return sorted(every, key=lambda one: (list(KINDS).index(one.kind), len(one.places)))


def counted(found: Sequence[Anomaly]) -> dict[str, int]:
    """Return the number of anomalies of each kind."""
    return {kind: sum(one.kind == kind for one in found) for kind in KINDS}


# --- what one transaction read ----------------------------------------------------------------------------------------


def _reads_of_versions(found: Dependencies) -> Iterator[Anomaly]:
    last = {(place, op.key): op.value for place, each in enumerate(found.history) for op in each.ops if not op.reads}
    for place in sorted(found.committed):
        for op in found.history[place].ops:
            if not op.reads:
                continue
            makers = {version: found.writers.get((op.key, version)) for version in op.elements or (op.value,)}
            for maker in makers.values():
                if maker is not None and found.history[maker].outcome is Outcome.FAILED:
                    yield Anomaly("dirty_reads", (maker, place), key=op.key)
            maker = makers.get(op.value)
            if maker not in (None, place) and last[maker, op.key] != op.value:
                yield Anomaly("intermediate_reads", (maker, place), key=op.key)


def _within_transactions(found: Dependencies) -> Iterator[Anomaly]:
    for place in sorted(found.committed):
        before = dict[Key, Op]()
        for op in found.history[place].ops:
            earlier = before.get(op.key)
            if op.reads and earlier is not None and op.value != earlier.value:
                yield Anomaly("nonrepeatable_reads" if earlier.reads else "own_writes_missed", (place,), key=op.key)
            before[op.key] = op


def _stale_reads(found: Dependencies) -> Iterator[Anomaly]:
    for place in sorted(found.committed):
        each = found.history[place]
        for key, version in external_reads(each.ops):
            if found.overwritten_at(key, version) < each.began:
                yield Anomaly("stale_reads", (place,), key=key)


# --- what became of writes --------------------------------------------------------------------------------------------


def _lost_updates(found: Dependencies) -> Iterator[Anomaly]:
    """Yield one for each transaction too many that read a version of a row and overwrote it."""
    readers = defaultdict[tuple[Key, Version], list[int]](list)
    for place in sorted(found.committed):
        written = {op.key for op in found.history[place].ops if not op.reads}
        for key, version in external_reads(found.history[place].ops):
            if key in written:
                readers[key, version].append(place)
    for (key, _), places in readers.items():
        for place in places[1:]:
            yield Anomaly("lost_updates", (places[0], place), key=key)


def _vanished_writes(found: Dependencies) -> Iterator[Anomaly]:
    """Yield one for each acknowledged element that the end lacks, and each list that no longer one begins with."""
    for (key, version), place in found.writers.items():
        gone = key in found.final and version not in found.final[key]
        appended = any(op.does == "append" and (op.key, op.value) == (key, version) for op in found.history[place].ops)
        if gone and appended and found.history[place].outcome is Outcome.ACKNOWLEDGED:
            yield Anomaly("vanished_writes", (place,), key=key)
    for place, key, elements in found.read_lists:
        kept = [version for version in elements if found.writers.get((key, version)) in found.committed]
        if kept != list(found.lists.get(key, ())[: len(kept)]):
            yield Anomaly("vanished_writes", (place,), key=key)


# --- cycles -----------------------------------------------------------------------------------------------------------


def _cycles(found: Dependencies) -> Iterator[Anomaly]:
    """Yield the shortest cycle through each set of transactions, and through each read that was overwritten later.

    A cycle belongs to the first kind that it fits: of writes only, with reads of what was written, with one read that
    was overwritten later, with several.
    """
    writes = [edge for edge in found.edges if edge.how is How.OVERWROTE]
    forward = [edge for edge in found.edges if edge.how is not How.OVERWROTE_READ]
    for together in strongly_connected(writes):
        yield _anomaly("write_cycles", _through(together, writes, writes))
    for together in strongly_connected(forward):
        reads = [edge for edge in forward if edge.how is How.READ_FROM]
        if cycle := _through(together, reads, forward):
            yield _anomaly("read_cycles", cycle)
    for together in strongly_connected(found.edges):
        within = [edge for edge in found.edges if {edge.before, edge.after} <= together]
        yield from _of_overwritten_reads(within)


def _of_overwritten_reads(within: list[Edge]) -> Iterator[Anomaly]:
    forward, every = ways(edge for edge in within if edge.how is not How.OVERWROTE_READ), ways(within)
    several, single = list[list[Edge]](), False
    for edge in within:
        if edge.how is not How.OVERWROTE_READ:
            continue
        if back := shortest_way(forward, edge.after, edge.before):
            single = True
            if not _is_lost_update([edge, *back]):
                fractured = len(back) == 1 and back[0].how is How.READ_FROM
                yield _anomaly("fractured_reads" if fractured else "read_skews", [edge, *back])
        elif back := shortest_way(every, edge.after, edge.before):
            several.append([edge, *back])
    # Where one overwritten read explains a circle, longer circles with several of them lead through it as well.
    for cycle in () if single else several:
        if not _is_lost_update(cycle):
            yield _anomaly("write_skews", cycle)


def _is_lost_update(cycle: list[Edge]) -> bool:
    """Return whether two transactions read and overwrote one row: counted as such, and a cycle of one row besides."""
    _, *back = cycle
    return len(back) == 1 and back[0].key == cycle[0].key and back[0].how is not How.READ_FROM


def _through(together: set[int], through: list[Edge], edges: list[Edge]) -> list[Edge]:
    """Return the shortest cycle within these transactions with one of the edges `through`; none if there is none."""
    within = ways(edge for edge in edges if {edge.before, edge.after} <= together)
    cycles = [
        [edge, *back]
        for edge in through
        if {edge.before, edge.after} <= together and (back := shortest_way(within, edge.after, edge.before))
    ]
    return min(cycles, key=len, default=[])


def _anomaly(kind: str, cycle: list[Edge]) -> Anomaly:
    return Anomaly(kind, tuple(edge.before for edge in cycle), tuple(cycle))


# --- in words ---------------------------------------------------------------------------------------------------------

SHOWN = 3
DID = {"read": "read {row} as {value}", "append": "appended {value} to {row}", "write": "wrote {value} to {row}"}
# The same of a user's statement, which names the row itself.
DID_SQL = {"read": "`{sql}` found {value}", "write": "`{sql}`"}


def example(found: Anomaly, history: Sequence[SeenTransaction]) -> str:
    """Return an anomaly as its transactions, with those operations that matter; long ones are cut."""
    keys: set[Key | None] = {found.key, *(edge.key for edge in found.edges)}
    kind = KINDS[found.kind]
    told = "; ".join(_told(history[place], keys) for place in dict.fromkeys(found.places[:SHOWN]))
    more = len(found.places) - SHOWN
    return f"{kind.says} ({kind.known_as}): {told}{f'; and {more} more' if more > 0 else ''}"


def _told(each: SeenTransaction, keys: set[Key | None]) -> str:
    did = dict.fromkeys(
        (DID_SQL if op.sql else DID)[op.does].format(
            row=f"row {op.key}", value="the first version" if op.value is None else op.value, sql=op.sql
        )
        for op in each.ops
        if op.key in keys
    )
    return f"client {each.client} on {each.node}, {each.began:.3f} to {each.ended:.3f} s, {', '.join(did)}"
