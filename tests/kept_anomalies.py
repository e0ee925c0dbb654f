"""The table of anomalies that a checker of histories counted in a kept record."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab.world import journal

from tests import kept
from tests.records import golden

KINDS = {
    "dirty_reads": "dirty reads",
    "nonrepeatable_reads": "non-repeatable reads",
    "fractured_reads": "fractured reads",
    "lost_updates": "lost updates",
    "write_skews": "write skews",
    "stale_reads": "stale reads",
}


def anomalies(name: str) -> str:
    """Return how many anomalies of each kind the transactions of each case had, and its commits a second."""
    with TemporaryDirectory() as folder:
        _, record = journal.read(str(golden.unpack(name, Path(folder))))

    def rows() -> Iterator[tuple[str, ...]]:
        for case in kept.experiment(name).cases:
            taken = [each.figures for each in record.of(case.engine, case.name) if "transactions" in each.figures]
            found = [round(sum(each[kind] or 0 for each in taken)) for kind in ("transactions", *KINDS)]
            rate = kept.of_a_figure(case.figures["throughput"]) if "throughput" in case.figures else "–"
            yield case.engine, case.about, *map(str, found), rate

    return kept.table(("engine", "case", "transactions", *KINDS.values(), "commits/s"), rows())
