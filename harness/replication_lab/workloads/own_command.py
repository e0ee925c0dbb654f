"""A load by a command of the user's, in a container of the user's image beside those of the lab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.question.load import Moments, kept
from replication_lab.workloads.timed_script import Timed, rates
from replication_lab.world import requests_made
from replication_lab.world.docker.lab import Lab

FORM = "START_US DURATION_US write|read ok|error"
LINE = re.compile(r"(\d{1,18}) (\d{1,18}) (write|read) (ok|error)", re.ASCII)
SHOWN = 120
# The least share of the requested time that a load must last. A command that ends earlier did not run the load.
SHORTEST = 0.8
# Tolerance besides one turn of all clients, since a command may round its times.
SLACK_US = 5000


@dataclass(frozen=True)
class TransactionLine:
    """One transaction: when it should have begun and how long it took, in microseconds of the command's own clock."""

    start: int
    duration: int
    writes: bool
    ok: bool

    @property
    def end(self) -> int:
        return self.start + self.duration


def lines_of(printed: str) -> list[TransactionLine]:
    """Return the transactions that a command printed. Raise LabError with the first invalid line."""
    found = [_line(number, text) for number, text in enumerate(printed.splitlines(), 1)]
    if not any(line.ok for line in found):
        raise LabError(
            f"the load command printed {len(found)} transactions, none of them ok",
            "a line for each transaction, at least one of them ok",
            "read docs/asking.md, section A command of your own",
        )
    return found


def _line(number: int, text: str) -> TransactionLine:
    found = LINE.fullmatch(text)
    if not found:
        raise LabError(
            f"line {number} of the load command is {text[:SHOWN]!r}",
            FORM,
            "print only lines of this form; print others to stderr",
        )
    return TransactionLine(int(found[1]), int(found[2]), found[3] == "write", found[4] == "ok")


def seconds_of(lines: Sequence[TransactionLine]) -> float:
    """Return the time from the first start to the last end."""
    return max((max(line.end for line in lines) - min(line.start for line in lines)) / 1e6, 1e-6)


def moments_of(lines: Sequence[TransactionLine]) -> Moments:
    """Return the times of all transactions, in seconds of the command's own clock."""
    return Moments(
        min(line.start for line in lines) / 1e6,
        max(line.end for line in lines) / 1e6,
        [(line.end / 1e6, line.duration / 1000) for line in lines if line.ok],
        [line.end / 1e6 for line in lines if not line.ok],
    )


def lasted(lines: Sequence[TransactionLine], seconds: int) -> Proof:
    """Prove that a load without a rate lasted for the requested time."""
    return Proof(
        what="the load command ran for the requested time (LAB_SECONDS)",
        expected=f"at least {SHORTEST * seconds:g} s",
        found=f"{seconds_of(lines):.3g} s",
        ok=seconds_of(lines) >= SHORTEST * seconds,
    )


def even(lines: Sequence[TransactionLine], rate: float, clients: int) -> Proof:
    """Prove that the starts match the rate: one every 1/rate seconds, with a tolerance of one turn of all clients.

    Actual instead of intended starts would differ as soon as a transaction is late. The starts of a command that
    ignores the rate always differ.
    """
    starts = sorted(line.start for line in lines)
    off = max(abs(start - starts[0] - number * 1e6 / rate) for number, start in enumerate(starts))
    most = clients * 1e6 / rate + SLACK_US
    return Proof(
        what=f"the load command starts its transactions at an even {rate:g}/s (LAB_RATE)",
        expected=f"each start at most {most / 1000:.4g} ms from its due time",
        found=f"one start was {off / 1000:.4g} ms from its due time",
        ok=off <= most,
        slow=off > most,
    )


SERVICE = "load-command"
PORT = 3306
# Seconds; a command that runs for this much longer than its load is stuck.
MORE_SECONDS = 60
TRY_SECONDS, TRY_RATE = 1, 20


@dataclass(frozen=True)
class OwnCommand:
    """Run `command` by `sh` in a container of `image`, with its parameters in environment variables."""

    command: str
    image: str
    clients: int = 1
    seconds: int = TRY_SECONDS
    rate: float = 0

    def prepare(self, lab: Lab) -> None:
        """Start the container for the command."""
        lab.run_beside("load", SERVICE, self.image)

    def try_out(self, lab: Lab) -> None:
        """Run the command for a second with one client; LabError for an invalid line or an ignored rate."""
        tried = replace(self, rate=TRY_RATE if self.rate else 0)
        lines = lines_of(tried._printed(lab, 1))
        if tried.rate and (doubt := even(lines, tried.rate, tried.clients).doubt):
            raise LabError(
                f"the load command does not keep a rate: {doubt}",
                "with LAB_RATE, evenly spaced starts",
                "leave out --rate, or read docs/asking.md, section A command of your own",
            )

    def run(self, lab: Lab, seed: int) -> Timed:
        """Run the command; LabError when it fails or prints an invalid line."""
        with requests_made.noted(requests_made.DEFINES, SERVICE):
            lines = lines_of(self._printed(lab, seed))
        good = [line for line in lines if line.ok]
        commits = [line.duration / 1000 for line in good if line.writes]
        achieved = len(lines) / self.seconds
        return Timed(
            commits=len(commits),
            throughput=len(good) / (self.seconds if self.rate else seconds_of(lines)),
            latencies_ms=[line.duration / 1000 for line in good],
            # Failed transactions count only here.
            lost=len(lines) - len(good),
            moments=moments_of(lines),
            # With a rate, latencies include waiting.
            fastest_commit_ms=None if self.rate else min(commits, default=None),
            rates=rates(self.rate, achieved) if self.rate else {},
            proofs=[kept(self.rate, achieved), even(lines, self.rate, self.clients)]
            if self.rate
            else [lasted(lines, self.seconds)],
        )

    def _printed(self, lab: Lab, seed: int) -> str:
        user, password = lab.application(lab.topology.source.name)
        known = {
            "HOST": lab.written_host,
            "PORT": PORT,
            "USER": user,
            "PASSWORD": password,
            "DATABASE": "lab",
            "CLIENTS": self.clients,
            "SECONDS": self.seconds,
            "SEED": seed,
            "RATE": f"{self.rate:.10g}" if self.rate else "",
        }
        limit = str(self.seconds + MORE_SECONDS)
        return lab.service(SERVICE).run(
            *("timeout", limit, "sh", "-c", self.command),
            environment={f"LAB_{name}": str(value) for name, value in known.items()},
        )
