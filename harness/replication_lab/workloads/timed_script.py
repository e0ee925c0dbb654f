"""A script of sysbench's, whose every event is timed: one of its own, the user's, or transactions in SQL."""

import re
from dataclasses import dataclass
from pathlib import Path

from replication_lab.workloads import _sysbench
from replication_lab.workloads.sequential_inserts import Inserted, parse
from replication_lab.world.docker.lab import Lab

TIMER = Path(__file__).with_suffix(".lua")
WROTE = re.compile(r"^wrote (\d+) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Timed(Inserted):
    """Throughput and latencies of all transactions; `commits` are those known to change something.

    Only these wait for other nodes, and `fastest_commit_ms` is the fastest of them; None if there is none.
    """

    fastest_commit_ms: float | None = None


@dataclass(frozen=True)
class TimedScript:
    """`clients` at once on the source, each running event after event of a script in Lua for `seconds`.

    `options` are the script's own. `kinds` is how many events show all that it does.
    """

    script: str
    options: tuple[str, ...] = ()
    kinds: int = 1
    clients: int = 1
    seconds: int = 0

    def prepare(self, lab: Lab) -> None:
        """Hand the script to the load container, and have it make its tables if it has any."""
        lab.service("load").put("/tmp/load.lua", self.script.encode())
        lab.service("load").put(f"/tmp/{TIMER.name}", TIMER.read_bytes())
        lab.service("load").run(*self._command(lab, clients=1), "prepare")

    def try_out(self, lab: Lab) -> None:
        """Run each kind of event once; LabError with the statement that failed."""
        how = (f"--events={self.kinds}", "--time=0", "--rand-seed=1")
        lab.service("load").run(*self._command(lab, clients=1), *how, "run")

    def run(self, lab: Lab, seed: int) -> Timed:
        """Run the clients; LabError when a statement failed for another reason than a lock."""
        how = ("--events=0", f"--time={self.seconds}", f"--rand-seed={seed}")
        printed = lab.service("load").run(*self._command(lab, self.clients), *how, "run")
        every = parse(printed)
        wrote = [(int(number), int(fastest) / 1000) for number, fastest in WROTE.findall(printed)]
        fastest = min((fastest for _, fastest in wrote), default=None)
        return Timed(sum(number for number, _ in wrote), every.throughput, every.latencies_ms, fastest)

    def _command(self, lab: Lab, clients: int) -> list[str]:
        script = f"/tmp/{TIMER.name}"
        return [*_sysbench.command(lab, script, (lab.topology.source.name,), "lab", clients), *self.options]
