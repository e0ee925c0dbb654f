"""A script of sysbench's, whose every event is timed: one of its own, the user's, or transactions in SQL."""

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.spread_load import LOAD
from replication_lab.model.question.load import kept
from replication_lab.model.question.sql_load import Letters, Numbers, Transaction
from replication_lab.workloads import spread, sysbench
from replication_lab.workloads.inserts import TOGETHER, Inserted, merged
from replication_lab.world.docker.lab import Lab

TIMER = Path(__file__).with_suffix(".lua")
PACE = TIMER.with_name("pace.lua")
SCRIPT = f"/tmp/{TIMER.name}"
WROTE = re.compile(r"^wrote (\d+) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Timed(Inserted):
    """Throughput and latencies of all transactions; `commits` are those known to change something.

    Only these wait for other nodes, and `fastest_commit_ms` is the fastest of them; None if there is none. With a rate,
    a latency begins when a transaction should have begun. `rates` are the one that was asked for and the one that was
    achieved.
    """

    fastest_commit_ms: float | None = None
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> Mapping[str, float | None]:
        return {**super().figures, **self.rates}


def rates(asked: float, achieved: float) -> dict[str, float]:
    """Return the figures of a load with a rate: the transactions a second asked for, and those begun."""
    return {"rate_asked": asked, "rate_achieved": round(achieved, 3)}


@dataclass(frozen=True)
class TimedScript:
    """`clients` at once on the source, each running event after event of a script in Lua for `seconds`.

    `options` are the script's own, `modules` the files beside it that it reads. `kinds` is how many events show all
    that it does. With a `rate`, so many events are to begin each second, at even times; those that have not begun when
    the time is over are left out. `defines` says that it may also change tables, as one of the user's may.
    """

    script: str
    options: tuple[str, ...] = ()
    kinds: int = 1
    clients: int = 1
    seconds: int = 0
    rate: float = 0
    modules: tuple[GivenFile, ...] = ()
    defines: bool = False

    def prepare(self, lab: Lab) -> None:
        """Hand the script to the load's containers, and have one make its tables if it has any."""
        spread.put(lab, "/tmp/load.lua", self.script.encode())
        for module in self.modules:
            spread.put(lab, f"/tmp/load/{module.name}", module.text.encode(), root="/tmp")
        for part in (TIMER, PACE, TOGETHER):
            spread.put(lab, f"/tmp/{part.name}", part.read_bytes())
        lab.service(LOAD).run(*self._alone(lab), "prepare")

    def try_out(self, lab: Lab) -> None:
        """Run each kind of event once; LabError with the statement that failed."""
        how = (f"--events={self.kinds}", "--time=0", "--rand-seed=1")
        lab.service(LOAD).run(*self._alone(lab), *how, "run")

    def run(self, lab: Lab, seed: int) -> Timed:
        """Run the clients; LabError when a statement failed for another reason than a lock."""
        how = {"rate": self.rate, "seconds": self.seconds}
        printed, proofs = spread.run(lab, self.clients, seed, self._command, **how, defines=self.defines)
        every = merged(printed)
        texts = [part.text for part in printed]
        wrote = [(int(number), int(fastest) / 1000) for text in texts for number, fastest in WROTE.findall(text)]
        achieved = len(every.latencies_ms) / self.seconds if self.rate else every.throughput
        return Timed(
            commits=sum(number for number, _ in wrote),
            throughput=achieved,
            latencies_ms=every.latencies_ms,
            lost=every.lost,
            moments=every.moments,
            # With a rate too, this one begins when the transaction did.
            fastest_commit_ms=min((fastest for _, fastest in wrote), default=None),
            rates=rates(self.rate, achieved) if self.rate else {},
            proofs=[*([kept(self.rate, achieved)] if self.rate else []), *every.proofs, *proofs],
        )

    def _command(self, share: spread.Share) -> list[str]:
        own = sysbench.command(SCRIPT, (share.host,), share.clients, share.port)
        how = ["--events=0", f"--rand-seed={share.seed}", f"--lab-begin={share.begin!r}"]
        if share.rate:
            paced = (f"--lab-rate={share.rate!r}", f"--lab-seconds={self.seconds}", f"--lab-events={share.events}")
            how += ["--time=0", *paced]
        else:
            how.append(f"--time={self.seconds}")
        return [*own, *self.options, *how, "run"]

    def _alone(self, lab: Lab) -> list[str]:
        """Return the command of a single client beside the nodes."""
        return [*sysbench.command(SCRIPT, (lab.written_host,), 1), *self.options]


TRANSACTIONS = Path(__file__).with_name("sql_transactions.lua")
PLAIN = set(string.printable.encode()) - set(string.whitespace.encode()) - set(b'"\\') | set(b" ")


def script_of(transactions: Iterable[Transaction]) -> str:
    """Return the script in Lua that runs these transactions."""
    listed = "".join(f"  {_transaction(each)},\n" for each in transactions)
    return f"transactions = {{\n{listed}}}\n\n{TRANSACTIONS.read_text()}"


def _transaction(transaction: Transaction) -> str:
    statements = transaction.statements
    if len(statements) > 1:
        statements = [["BEGIN"], *statements, ["COMMIT"]]
    return _table(
        f"writes = {str(transaction.writes).lower()}",
        f"parameters = {_table(*(_parameter(name, drawn) for name, drawn in transaction.parameters.items()))}",
        f"statements = {_table(*(_table(*map(quoted, pieces)) for pieces in statements))}",
    )


def _parameter(name: str, drawn: Numbers | Letters) -> str:
    if isinstance(drawn, Letters):
        return _table(f"name = {quoted(name)}", f"letters = {drawn.number}")
    return _table(f"name = {quoted(name)}", f"low = {drawn.low}", f"high = {drawn.high}")


def _table(*entries: str) -> str:
    return f"{{ {', '.join(entries)} }}"


def quoted(text: str) -> str:
    """Return a text as Lua reads it, in ASCII: any other byte is a backslash and three digits."""
    plain = (chr(byte) if byte in PLAIN else f"\\{byte:03d}" for byte in text.encode())
    return f'"{"".join(plain)}"'
