"""The table of anomalies that a checker of histories counted in a kept record."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab.model.record.record import Record
from replication_lab.world import journal

from tests import kept
from tests.kept_table import digits, table
from tests.records import golden

KINDS = {
    "dirty_reads": "dirty reads",
    "nonrepeatable_reads": "non-repeatable reads",
    "fractured_reads": "fractured reads",
    "lost_updates": "lost updates",
    "write_skews": "write skews",
    "stale_reads": "stale reads",
}

BOTH = ("mariadb", "mysql-8.0")
DISTANCES = {"lan": "on a LAN", "10ms": "at 10 ms", "85ms": "at 85 ms"}
# Its engines, the stronger setting, the anomaly that it is for, the cases with and without it.
PRICES = (
    (BOTH, "REPEATABLE READ for READ COMMITTED", "nonrepeatable_reads", "repeatable-read", "read-committed"),
    (BOTH, "SERIALIZABLE for REPEATABLE READ", "write_skews", "serializable", "repeatable-read"),
    (("mariadb",), "`innodb_snapshot_isolation`", "lost_updates", "repeatable-read", "repeatable-read-before"),
    (("mariadb",), "the same, on three Galera nodes", "lost_updates", "galera-{at}", "galera-before-{at}"),
    (("mariadb",), "`wsrep_sync_wait=1`, Galera", "stale_reads", "galera-sync-wait-{at}", "galera-{at}"),
    (("mysql-8.0",), "BEFORE for EVENTUAL, a group", "stale_reads", "group-before-{at}", "group-eventual-{at}"),
    (("mysql-8.0",), "AFTER for EVENTUAL, a group", "stale_reads", "group-after-{at}", "group-eventual-{at}"),
    (BOTH, "semi-synchronous for asynchronous", "stale_reads", "semisync-{at}", "async-{at}"),
)


def prices(name: str) -> str:
    """Return what each stronger setting prevents and costs, by distance.

    A cell has the anomalies in 1000 transactions without it and with it, and the commits/s with it as a share of those
    without it.
    """
    record, claims = _record(name), kept.experiment(name).claims

    def share(engine: str, case: str, kind: str) -> str:
        taken = [each.figures for each in record.of(engine, case) if "transactions" in each.figures]
        seen, of = (sum(each[figure] or 0 for each in taken) for figure in (kind, "transactions"))
        return digits(1000 * seen / of)

    def cell(engine: str, kind: str, strong: str, weak: str) -> str:
        of = f"throughput({strong}) / throughput({weak})"
        price = next(row for row in claims if row.engine == engine and row.relation.startswith(of))
        return f"{share(engine, weak, kind)} → {share(engine, strong, kind)}; {kept.measured(price)}"

    def rows() -> Iterator[tuple[str, ...]]:
        for engines, said, kind, strong, weak in PRICES:
            for engine in engines:
                cells = [cell(engine, kind, strong.format(at=at), weak.format(at=at)) for at in DISTANCES]
                yield engine, said, KINDS[kind], *(cells if "{at}" in strong else [cells[0], "–", "–"])

    return table(("engine", "setting", "anomaly", *DISTANCES.values()), rows())


def anomalies(name: str) -> str:
    """Return how many anomalies of each kind the transactions of each case had, and its commits a second."""
    record = _record(name)

    def rows() -> Iterator[tuple[str, ...]]:
        for case in kept.experiment(name).cases:
            taken = [each.figures for each in record.of(case.engine, case.name) if "transactions" in each.figures]
            found = [round(sum(each[kind] or 0 for each in taken)) for kind in ("transactions", *KINDS)]
            rate = kept.of_a_figure(case.figures["throughput"]) if "throughput" in case.figures else "–"
            yield case.engine, case.about, *map(str, found), rate

    return table(("engine", "case", "transactions", *KINDS.values(), "commits/s"), rows())


def _record(name: str) -> Record:
    with TemporaryDirectory() as folder:
        return journal.read(str(golden.unpack(name, Path(folder))))[1]
