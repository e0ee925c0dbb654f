"""sysbench: its command line, and its OLTP read-write load, the published test: reads, updates, a delete, an insert.

The command line has no password, because every user of the host can read it. The load container's environment has it:
MYSQL_PWD.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.model.lab.site import SERVER_PORT
from replication_lab.world.docker.lab import DATABASE, USER, Lab


def command(script: str, nodes: Sequence[str], clients: int, port: int = SERVER_PORT) -> list[str]:
    """Return a command for the load container; a script's own options and its verb come after it."""
    return [
        "sysbench",
        script,
        "--db-driver=mysql",
        f"--mysql-host={','.join(nodes)}",
        f"--mysql-port={port}",
        f"--mysql-user={USER}",
        f"--mysql-db={DATABASE}",
        f"--threads={clients}",
    ]


SCRIPT = "oltp_read_write"
COUNTED = {
    "transactions": r"transactions:\s+(\d+)",
    "reads": r"read:\s+(\d+)",
    "writes": r"write:\s+(\d+)",
    "seconds": r"total time:\s+([\d.]+)s",
    "latency_min_ms": r"min:\s+([\d.]+)",
    "latency_avg_ms": r"avg:\s+([\d.]+)",
    "latency_max_ms": r"max:\s+([\d.]+)",
    "latency_p95_ms": r"95th percentile:\s+([\d.]+)",
}


def parse(printed: str) -> PlainOutcome:
    """Return the figures of sysbench's summary; LabError if it has none, or nothing was committed.

    These are counts, latencies of a transaction in ms, transactions and requests a second. A request is a statement
    that reads or writes, as the published table counts them; BEGIN and COMMIT are none.
    """
    matches = {name: match for name, pattern in COUNTED.items() if (match := re.search(pattern, printed))}
    if len(matches) < len(COUNTED) or not int(matches["transactions"][1]):
        raise LabError(f"sysbench committed nothing:\n{printed[-400:]}", "at least one transaction", "./lab status")
    found = {name: float(match[1]) for name, match in matches.items()}
    figures = {
        "transactions": found["transactions"],
        "throughput": round(found["transactions"] / found["seconds"], 3),
        "requests_per_second": round((found["reads"] + found["writes"]) / found["seconds"], 3),
        **{name: value for name, value in found.items() if name.startswith("latency")},
    }
    return PlainOutcome(int(found["transactions"]), figures)


@dataclass(frozen=True)
class SysbenchOltp:
    """`clients` for this many `seconds` on one table of `rows` on a node; all rows are chosen equally often."""

    node: str
    rows: int
    seconds: int = 0
    clients: int = 4

    def fill(self, lab: Lab) -> None:
        """Drop the table and fill it again."""
        lab.node(self.node).server().execute("DROP TABLE IF EXISTS lab.sbtest1")
        lab.service("load").run(*self._command(clients=1), "prepare")

    def run(self, lab: Lab, seed: int) -> PlainOutcome:
        """Run the load; LabError when a statement failed for another reason than a lock."""
        how = (f"--time={self.seconds}", f"--rand-seed={seed}")
        return parse(lab.service("load").run(*self._command(self.clients), *how, "run"))

    def _command(self, clients: int) -> list[str]:
        return [
            *command(SCRIPT, (self.node,), clients),
            "--tables=1",
            f"--table-size={self.rows}",
            "--rand-type=uniform",
        ]
