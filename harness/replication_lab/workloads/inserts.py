"""Sequential autocommit inserts: the published test, by one client or by many at once."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import LoadOutcome
from replication_lab.model.question.load import Moments
from replication_lab.model.record.measurement import Ordered, p999
from replication_lab.workloads import spread, sysbench
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

SCRIPT = Path(__file__).with_suffix(".lua")
# What the clients' scripts share: the common beginning of a load in several containers.
TOGETHER = SCRIPT.with_name("together.lua")
LOST = re.compile(r"^lost (\d+)((?: [\d.]+)*)$", re.MULTILINE)
TABLE = "CREATE TABLE IF NOT EXISTS lab.foo (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, text VARCHAR(8)) ENGINE=InnoDB"


@dataclass(frozen=True)
class Inserted:
    """What the clients measured: commits acknowledged, commits a second, and each commit's latency in ms.

    `lost` counts attempts that failed and were made again. `lag_s` is how long replicas applied after the load, if it
    was timed. `moments` are the times of all this; None if the clients told none. `proofs` show that the load was the
    one that was asked for.
    """

    commits: int
    throughput: float
    latencies_ms: list[float]
    lost: int = 0
    lag_s: float | None = None
    moments: Moments | None = None
    proofs: Sequence[Proof] = ()

    @property
    def samples(self) -> dict[str, list[float]]:
        return {"latency_ms": self.latencies_ms}

    @property
    def figures(self) -> Mapping[str, float | None]:
        attempts = self.lost + len(self.latencies_ms)
        low, middle, high, higher = np.quantile(self.latencies_ms, [0, 0.5, 0.95, 0.99])
        return {
            "commits": self.commits,
            "throughput": round(self.throughput, 3),
            "latency_min_ms": round(float(low), 3),
            "latency_p50_ms": round(float(middle), 3),
            "latency_p95_ms": round(float(high), 3),
            "latency_p99_ms": round(float(higher), 3),
            "latency_p999_ms": p999(Ordered([self.latencies_ms])),
            "latency_max_ms": max(self.latencies_ms),
            "attempts": attempts,
            "errors": self.lost / attempts,
            **({} if self.lag_s is None else {"lag_s": round(self.lag_s, 3)}),
        }


def parse(printed: str) -> Inserted:
    """Return what the clients of a script printed, a line each; LabError if none committed anything."""
    clients = [line.split()[1:] for line in printed.splitlines() if line.startswith("client ")]
    latencies = [int(each) / 1000 for client in clients for each in client[2:]]
    if not latencies:
        raise LabError(f"sysbench committed nothing:\n{printed[-400:]}", "at least one commit", "./lab status")
    # From the first statement to the last answer, so that the time in which clients queue behind each other counts.
    seconds = max(float(client[1]) for client in clients) - min(float(client[0]) for client in clients)
    lost = LOST.findall(printed)
    failed = sum(int(number) for number, _ in lost)
    moments = _moments(printed, clients, [float(at) for _, times in lost for at in times.split()])
    return Inserted(len(latencies), len(latencies) / max(seconds, 1e-6), latencies, failed, moments=moments)


def merged(parts: Sequence[spread.Printed]) -> Inserted:
    """Return what the clients of all containers measured, on this process's clock.

    LabError if those of one committed nothing, or told no times.
    """
    found = [parse(part.text) for part in parts]
    shares = [part.share for part in parts if part.share]
    if not shares:
        return found[0]
    moments = [each.moments.earlier(share.ahead) for each, share in zip(found, shares, strict=True) if each.moments]
    if len(moments) < len(found):
        raise LabError("a container of the load printed no times", "a line of times for each client", "./lab status")
    begin, end = min(each.begin for each in moments), max(each.end for each in moments)
    latencies = [each for one in found for each in one.latencies_ms]
    return Inserted(
        commits=len(latencies),
        throughput=len(latencies) / max(end - begin, 1e-6),
        latencies_ms=latencies,
        lost=sum(one.lost for one in found),
        moments=Moments(
            begin, end, [each for one in moments for each in one.commits], [at for one in moments for at in one.lost]
        ),
        proofs=[spread.begun_together(moments, shares, [part.drift for part in parts])],
    )


def _moments(printed: str, clients: Sequence[Sequence[str]], lost: Sequence[float]) -> Moments | None:
    """Return when each commit of each client was answered; None if the lines with these times are missing."""
    ends = [line.split()[1:] for line in printed.splitlines() if line.startswith("ends ")]
    if [len(each) for each in ends] != [len(client) - 2 for client in clients]:
        return None
    commits = [
        (float(client[0]) + at / 1e6, int(latency) / 1000)
        for client, gaps in zip(clients, ends, strict=True)
        for at, latency in zip(accumulate(map(int, gaps)), client[2:], strict=True)
    ]
    begins, lasts = ([float(client[place]) for client in clients] for place in (0, 1))
    return Moments(min(begins), max(lasts), commits, lost)


@dataclass(frozen=True)
class Inserts:
    """`clients` at once, each inserting row after row: `rows` in all, or as many as fit into `seconds`.

    Where both are given, the load ends with the first of them. The clients write to `nodes` in turn (the source if none
    is named). A client pauses `think_ms` after each insert; the pause is excluded from latencies and included in the
    throughput. Without `keeps_samples` a record has the quantiles of the latencies only.
    """

    clients: int = 1
    rows: int = 0
    seconds: int = 0
    think_ms: float = 0
    nodes: tuple[str, ...] = ()
    keeps_samples: bool = True

    def prepare(self, lab: Lab) -> None:
        """Make the table on the source and hand the script to the load container."""
        lab.node(lab.topology.source.name).server().execute(TABLE)
        for part in (SCRIPT, TOGETHER):
            spread.put(lab, f"/tmp/{part.name}", part.read_bytes())

    def run(self, lab: Lab, seed: int) -> Inserted:
        """Run the clients; LabError when a single statement failed."""
        printed, proofs = spread.run(lab, self.clients, seed, self._command)
        found = merged(printed)
        return replace(found, proofs=[*found.proofs, *proofs])

    def _command(self, share: spread.Share) -> list[str]:
        nodes = self.nodes or (share.host,)
        return [
            *sysbench.command(f"/tmp/{SCRIPT.name}", nodes, share.clients, share.port),
            f"--events={self.rows}",
            f"--time={self.seconds}",
            f"--rand-seed={share.seed}",
            f"--lab-begin={share.begin!r}",
            f"--think={round(self.think_ms * 1000)}",
            "run",
        ]


def timed(act: Callable[[], object], times: int) -> LoadOutcome:
    """Do this so many times; return the throughput and the latencies. Each act is one transaction that writes."""
    latencies, began = [], clock.timer()
    for _ in range(times):
        at = clock.timer()
        act()
        latencies.append((clock.timer() - at) * 1000)
    return Inserted(times, times / max(clock.timer() - began, 1e-6), latencies)
