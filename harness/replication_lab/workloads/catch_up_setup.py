"""The replicas of a race: same settings but different disks, put behind their source, and in sync again afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from replication_lab.faults.disks import DiskLimits
from replication_lab.faults.fault import Injected, injected
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.lab.disk import Limits
from replication_lab.workloads.catch_up import FLUSHING
from replication_lab.workloads.race import REPLICAS, raced_arrays
from replication_lab.workloads.row_updates import RowChanges
from replication_lab.world import at_once, catalogue
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.flush import USUALLY, write_pages
from replication_lab.world.mysql.replica import APPLIER, Replica
from replication_lab.world.mysql.server import Server

# By family of servers. On slower disks MySQL's applier pauses for longer; on faster ones MariaDB's takes more than two
# CPUs.
DISKS = {"mariadb": "plain-200", "mysql": "plain-400"}
# Changes that fill a redo log of 8 MiB.
REDO_ROWS = 4500

# The source writes to the host's disk, which is never the limit.
SOURCE: dict[str, int | str] = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0, "binlog_row_image": "MINIMAL"}
# A small redo log, whose cycle fits into a measurement; nothing written twice; threads enough for two disks. MySQL's
# settings that need a restart are in compose/raid.yaml.
REPLICA: dict[str, dict[str, int | str]] = {
    "mariadb": {
        "innodb_log_file_size": 8 << 20,
        "innodb_doublewrite": "OFF",
        "innodb_write_io_threads": 16,
        "innodb_flush_neighbors": 0,
        "binlog_row_image": "MINIMAL",
    },
    "mysql": {"binlog_row_image": "MINIMAL"},
}
# While its redo log is full MariaDB 11.8.9 polls without a pause for the end of the page cleaner's batch and for a
# checkpoint; 11.8.6 slept. With batches of 2000 pages three appliers took both CPUs, and the disks were idle.
BATCH: dict[str, dict[str, int]] = {"mariadb": {"innodb_io_capacity_max": USUALLY["innodb_io_capacity"]}, "mysql": {}}
# No worker thread in MySQL: with one, RAID0's disks were idle for up to 39 % of the time, without for 14 %.
ONE_APPLIER = {"mariadb": {"slave_parallel_threads": 0}, "mysql": {"replica_parallel_workers": 0}}


def prepare(lab: Lab) -> None:
    """Set the servers' variables, and remove the limits of all disks: only a measurement sets them."""
    for array in raced_arrays(lab):
        array.limit(Limits())
    lab.node("source").server().set_global(**SOURCE)
    at_once.of_each(lambda node: _prepare(lab.node(node).server()), REPLICAS)


def _prepare(server: Server) -> None:
    server.set_global(**REPLICA[server.dialect.family], **FLUSHING["relaxed"], **USUALLY)


def fill(lab: Lab, *tables: RowChanges) -> None:
    """Create the tables on each server, fill a redo log with changes, and write all pages back.

    Without this an applier of MySQL 8.0 paused for longer in the first race of a lab than in later ones.
    """
    for each in tables:
        each.fill(lab)
        each.change(lab, seed=1, rows=REDO_ROWS)
    position = BinaryLog(lab.node("source").server()).position()

    def settle(server: Server) -> None:
        Replica(server).wait_for(position)
        write_pages(server)

    at_once.of_each(lambda node: settle(lab.node(node).server()), REPLICAS)


@contextmanager
def behind(lab: Lab, case: Case) -> Iterator["RaceWatch"]:
    """Stop the replicas' appliers (one, or as the case sets them) and slow their disks within the block.

    The source continues to write meanwhile; the replicas apply the backlog at the end.
    """
    servers, appliers = [lab.node(node).server() for node in REPLICAS], case.settings.get("appliers")
    limits = catalogue.disk(DISKS[servers[0].dialect.family]).limits
    try:
        at_once.of_each(lambda server: _configure_appliers(server, appliers), servers)
        with injected(DiskLimits(lab, REPLICAS, limits)) as limited:
            yield RaceWatch(servers, limits, limited)
    finally:
        at_once.of_each(lambda server: _catch_up(server, lab.node("source").server()), servers)
        # Otherwise slow disks would do it during a measurement.
        at_once.of_each(Array.write_back, raced_arrays(lab))


def _configure_appliers(server: Server, appliers: Mapping[str, str | int] | None) -> None:
    family, replica = server.dialect.family, Replica(server)
    replica.stop()
    server.set_global(**(appliers or ONE_APPLIER[family]), **BATCH[family])
    replica.start()
    replica.stop_thread(APPLIER)


def _catch_up(server: Server, source: Server) -> None:
    # Also where it should be running: an applier that was stopped by other means must not spoil the next case.
    replica = Replica(server)
    replica.start()
    server.set_global(**FLUSHING["relaxed"])
    replica.wait_for(BinaryLog(source).position())
    write_pages(server)


@dataclass
class RaceWatch:
    """The disks of a case, checked before and after it, and the replicas, which must still apply."""

    servers: list[Server]
    limits: Limits
    limited: Injected

    def figures(self) -> dict[str, float]:
        return {"disk_writes_per_second": float(self.limits.writes_per_second)}

    def proofs(self, _commits: int, _fastest_ms: float | None = None) -> list[Proof]:
        return [*self.limited.end(), *(_applies(server) for server in self.servers)]


def _applies(server: Server) -> Proof:
    found = Replica(server).status()
    return Proof(
        what=f"{server.name} applies",
        expected="both threads run",
        found=(found.error or found.threads) if found else "no source",
        ok=bool(found and found.healthy),
    )


def predict(_case: Case, figures: Mapping[str, float]) -> dict[str, float]:
    """Return the law's figures: writes follow the disks, RAID0 writes twice as often as one; rows follow the writes.

    A lag grows by what the source changes less what the replica applies; a replica that keeps up writes only what comes
    in.
    """
    law: dict[str, float] = {}
    if writes := figures.get("disk_writes_per_second"):
        law |= {f"{name}_writes_per_second": writes * times for name, times in _TIMES.items()}
    if one := figures.get("single_rows_per_second"):
        law |= {f"{name}_rows_per_second": one * times for name, times in _TIMES.items() if name != "single"}
    if load := figures.get("load_rows_per_second"):
        applied = {name: figures.get(f"{name}_rows_per_second") for name in REPLICAS}
        law |= {f"{name}_lag_slope": load - rows for name, rows in applied.items() if rows is not None}
        if applied["raid0"]:
            law["raid0_writes_per_second_after"] = figures["raid0_writes_per_second"] * load / applied["raid0"]
    return law


_TIMES = {"single": 1, "raid1": 1, "raid0": 2}


# What the experiments that race replicas have in common.
RACE: dict[str, Any] = {
    "topology": "raid",
    "compared": tuple(f"{array}_rows_per_second" for array in ("single", "raid0", "raid1")),
    "engines": ("mariadb", "mysql-8.0"),
    "prepare": prepare,
    "arrange": behind,
    "predict": predict,
}
