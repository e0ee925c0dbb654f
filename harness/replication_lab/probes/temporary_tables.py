"""Proofs that temporary tables went to disk, and into which storage engine: by counters, not by settings."""

from dataclasses import dataclass, field
from functools import cached_property

from replication_lab.model.core.proof import Proof
from replication_lab.world.mysql.server import Server

DISK_TABLES = "Created_tmp_disk_tables"
# Counters that grow by one for each row that is written into a temporary table of a storage engine. Key writes stand
# for rows of MyISAM: the table has one index, over the column that is grouped by.
ROWS = {
    "aria": "Aria_pagecache_write_requests",
    "myisam": "Key_write_requests",
    "innodb": "Innodb_rows_inserted",
}
# Bounds for the share of the rows: the first are in memory until that is full, and reading the counters itself makes
# a temporary table of some hundred rows.
MOST, FEW = 0.9, 0.1


@dataclass
class TemporaryTablesWatch:
    """A load of queries that each make one temporary table of `rows` rows, which `storage` should hold.

    `counts` tells whether the server counts such a table as one on disk; MySQL's TempTable of 8.0 and later does not.
    """

    server: Server
    statement: str
    storage: str
    rows: int
    counts: bool
    before: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._counters()

    def _counters(self) -> dict[str, int]:
        return self.server.counters(DISK_TABLES, *ROWS.values())

    @cached_property
    def _grown(self) -> dict[str, int]:
        after = self._counters()
        return {name: after[name] - count for name, count in self.before.items()}

    def figures(self) -> dict[str, float]:
        """Return the temporary tables that the server counted as on disk, and the rows of each storage engine."""
        rows = {f"{engine}_rows": self._grown.get(name, 0) for engine, name in ROWS.items()}
        return {"disk_tables": self._grown[DISK_TABLES], **rows}

    def proofs(self, commits: int, _fastest_ms: float | None = None) -> list[Proof]:
        """Return the proofs over a load of `commits` queries."""
        counted = [self._went_to_disk(commits)] if self.counts else []
        return [*counted, self._were_in_storage(commits * self.rows), self._have_the_plan()]

    def _went_to_disk(self, queries: int) -> Proof:
        found = self._grown[DISK_TABLES]
        return Proof(
            what=f"each query's temporary table went to disk ({DISK_TABLES})",
            expected=f"at least {queries}",
            found=str(found),
            ok=found >= queries,
        )

    def _were_in_storage(self, rows: int) -> Proof:
        written = {engine: self._grown.get(name, 0) for engine, name in ROWS.items()}
        least, most = round(MOST * rows), round(FEW * rows)
        return Proof(
            what=f"only {self.storage} wrote the temporary tables' rows",
            expected=f"at least {least} rows by {self.storage}, at most {most} rows by any other storage engine",
            found=", ".join(f"{count} rows by {engine}" for engine, count in written.items()),
            ok=all(count >= least if engine == self.storage else count <= most for engine, count in written.items()),
        )

    def _have_the_plan(self) -> Proof:
        (plan,) = self.server.rows(f"EXPLAIN {self.statement}")
        return Proof(
            what="the plan is the published one",
            expected=f"ALL, {self.rows} rows, Using temporary",
            found=f"{plan['type']}, {plan['rows']} rows, {plan['Extra']}",
            ok=(plan["type"], int(plan["rows"])) == ("ALL", self.rows) and "Using temporary" in str(plan["Extra"]),
        )
