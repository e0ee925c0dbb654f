"""The part of the fake world that groups: queries whose temporary tables go into a storage engine, and are counted."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

ROWS = 10_000
# What one query takes in ms, by where its temporary table is: Aria three and a half times as long as MyISAM.
QUERY = {"aria": 105.0, "myisam": 30.0, "innodb": 15.0}
COUNTED = {
    "aria": "Aria_pagecache_write_requests",
    "myisam": "Key_write_requests",
    "innodb": "Innodb_rows_inserted",
}
CHOICE = "internal_tmp_disk_storage_engine"
SLAPS = ("mariadb-slap", "mysqlslap")
SIGMA = 0.002


@dataclass
class FakeGrouping:
    """A server's temporary tables. `fits` keeps them in memory, `plan` is what EXPLAIN says of the query."""

    features: frozenset[str]
    dice: Random
    fits: bool = False
    counters: Counter[str] = field(default_factory=Counter)
    plan: dict[str, str | int] = field(
        default_factory=lambda: {"type": "ALL", "rows": ROWS, "Extra": "Using temporary; Using filesort"}
    )

    @property
    def settings(self) -> dict[str, str]:
        """What a server says that can choose the storage engine; the others have no such variable."""
        return {CHOICE: "INNODB"} if {"tmp_innodb", "tmp_myisam"} <= self.features else {}

    def run(self, command: tuple[str, ...], chosen: str | None) -> str:
        """Return what slap prints after its queries; `chosen` is the variable's value, if there is one."""
        options = dict(part.removeprefix("--").split("=", 1) for part in command if "=" in part)
        queries, iterations = int(options["number-of-queries"]), int(options["iterations"])
        storage = (chosen or next(each for each in COUNTED if f"tmp_{each}" in self.features)).lower()
        self._count(storage, queries * iterations)
        rows = [queries * QUERY[storage] * self.dice.lognormvariate(0, SIGMA) / 1000 for _ in range(iterations)]
        return f",mixed,{sum(rows) / len(rows):.3f},{min(rows):.3f},{max(rows):.3f},1,{queries}\n"

    def _count(self, storage: str, queries: int) -> None:
        if self.fits:
            return
        self.counters[COUNTED[storage]] += queries * ROWS
        if "tmp_counted" in self.features:
            self.counters["Created_tmp_disk_tables"] += queries
