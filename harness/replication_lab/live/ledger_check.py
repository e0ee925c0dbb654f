"""Which acknowledged rows a node lacks, by counts of ranges; single rows are read only where a count differs."""

from collections.abc import Iterable

from replication_lab.live.tally import Ranges
from replication_lab.workloads.ledger import TABLE
from replication_lab.world.mysql.server import Server

# Rows are read in parts of this many.
PART = 100_000


def missing(server: Server, rows: Ranges) -> int:
    """Return how many of these rows the server lacks; LabError if it does not answer."""
    return sum(_missing(server, first, last) for first, last in _parts(rows))


def _parts(rows: Ranges) -> Iterable[tuple[int, int]]:
    for first, last in rows:
        for begin in range(first, last + 1, PART):
            yield begin, min(begin + PART - 1, last)


def _missing(server: Server, first: int, last: int) -> int:
    # A row can be there twice only by a mistake; it must not hide one that is missing.
    found = server.value(f"SELECT COUNT(DISTINCT id) FROM {TABLE} WHERE id BETWEEN {first} AND {last}")
    return last - first + 1 - int(found)
