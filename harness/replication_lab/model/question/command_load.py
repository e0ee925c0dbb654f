"""The output of a user's own load command: a line for each transaction, and the proofs that follow from the lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.question.load import Moments

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
