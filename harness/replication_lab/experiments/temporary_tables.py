"""Are MariaDB's temporary tables on disk faster than MySQL's, or three to four times slower?"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from replication_lab import Case, Lab, Preset, experiment
from replication_lab.model.experiment.experiment import ComparisonTable
from replication_lab.probes.temporary_tables import TemporaryTablesWatch
from replication_lab.workloads.mysqlslap import Slap
from replication_lab.world.mysql.server import NotKept

ROWS, AT_ONCE = 10_000, 1_000
PUBLISHED_SIZE = 1024
# The published tables, by the columns that a row has besides its number.
TABLES = ("sort_1", "sort_id")
# Where a server may keep a temporary table that does not fit into memory; the client program of its own image.
STORAGES = {"aria": "Aria", "myisam": "MyISAM", "innodb": "InnoDB"}
OWN_SLAP = {"aria": "mariadb-slap", "myisam": "mysqlslap", "innodb": "mysqlslap"}
CHOICE = "internal_tmp_disk_storage_engine"


def _statement(table: str) -> str:
    return f"SELECT * FROM lab.{table} GROUP BY id"


def workload(case: Case, preset: Preset) -> Slap:
    """Return the published test: 20 queries in a row, by one client."""
    own = OWN_SLAP[case.settings["storage"]] if case.settings["own"] else ""
    return Slap(_statement(case.settings["table"]), preset.sizes["queries"], preset.sizes["iterations"], own)


def prepare(lab: Lab) -> None:
    """Pin a CPU for the server and one for the client, if there are two; set the published variable, fill tables."""
    lab.pin_cpus(("server",), ("load",))
    server = lab.node("server").server()
    try:
        server.set_global(tmp_table_size=PUBLISHED_SIZE)
    except NotKept:
        # MariaDB 11 rounds down to whole blocks of 16 KiB. With 0 each of the tables is on disk as well.
        server.set_global(tmp_table_size=0)
    server.set_global(sql_mode="")
    if server.settings("explain_format"):
        server.set_global(explain_format="TRADITIONAL")
    # Global variables apply to new sessions only.
    server.close()
    # MyISAM knows exactly how many rows it has, as the published plan does; reading it costs the same on every engine.
    server.execute(
        "CREATE TABLE lab.sort_id (id INT) ENGINE=MyISAM", "CREATE TABLE lab.sort_1 (id INT, tea TEXT) ENGINE=MyISAM"
    )
    numbers = list(range(1, ROWS + 1))
    Random(2011).shuffle(numbers)
    for begin in range(0, ROWS, AT_ONCE):
        part = numbers[begin : begin + AT_ONCE]
        server.execute(
            "INSERT INTO lab.sort_id VALUES " + ", ".join(f"({number})" for number in part),
            "INSERT INTO lab.sort_1 VALUES " + ", ".join(f"({number}, 'tea {number}')" for number in part),
        )


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[TemporaryTablesWatch]:
    """Set the case's storage engine, if the server has the choice; yield the watch that proves it was this one."""
    server, storage = lab.node("server").server(), case.settings["storage"]
    if server.settings(CHOICE):
        server.set_global(**{CHOICE: storage.upper()})
    counts = "tmp_counted" in lab.features
    yield TemporaryTablesWatch(server, _statement(case.settings["table"]), storage, ROWS, counts)


experiment(
    topology="single",
    compared=("average_ms",),
    engines=(
        "mysql-5.5",
        "mysql-5.6",
        "mysql-5.7",
        "mysql-8.0",
        "mysql",
        "mariadb-10.1",
        "mariadb-10.2",
        "mariadb-10.11",
        "mariadb",
    ),
    load=workload,
    prepare=prepare,
    arrange=arrange,
    comparison=ComparisonTable(
        title="20 queries: average (minimum–maximum)",
        average="average_ms",
        least="min_ms",
        most="max_ms",
        columns={said: {table: f"{table}-{storage}" for table in TABLES} for storage, said in STORAGES.items()},
    ),
    side_by_side=True,
    default_engines=("mysql-5.5", "mysql-8.0", "mariadb"),
    settings=(
        "tmp_table_size",
        "max_heap_table_size",
        "tmpdir",
        "sql_mode",
        "aria_used_for_temp_tables",
        "aria_pagecache_buffer_size",
        "key_buffer_size",
        "sort_buffer_size",
        "internal_tmp_mem_storage_engine",
        CHOICE,
    ),
)
