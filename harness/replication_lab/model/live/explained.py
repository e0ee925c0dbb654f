"""What happens now, in at most two sentences, from the states of a lab: rules, of which the first that fits counts.

The first sentence is about the state, the second one about the rate. Each kind of replication has rules of its own
about its states (`Nodes.rules`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from replication_lab.model.live.view import Span

# A second with this share of the law or more follows it.
NEAR = 0.8


class Now(NamedTuple):
    """What the rules look at; times are seconds. `state` is that of `node`, to which the clients write.

    `others` are the other nodes that are not well, of `nodes` in all. `since` is how long `node` has had this state,
    `silent` how long no commit was acknowledged. `waits` is the round trip in ms that a commit waits for. `timeout_s`
    is that of semi-sync. `acting` are the faults that act. `lag` has the transactions that each replica lacks, None if
    they cannot be counted.
    """

    node: str
    state: str
    others: Sequence[tuple[str, str]] = ()
    nodes: int = 0
    since: float = 0.0
    silent: float = 0.0
    clients: int = 0
    rate: float = 0.0
    commits: float | None = None
    errors: float = 0.0
    waits: float | None = None
    law: float | None = None
    timeout_s: float | None = None
    acting: Sequence[Span] = ()
    lag: Sequence[tuple[str, int | None]] = ()

    @property
    def because(self) -> str:
        """The faults that act, as the end of a sentence."""
        names = [span.label for span in self.acting]
        return f" ({', '.join(names)})" if names else ""

    @property
    def stalled(self) -> bool:
        return bool(self.clients) and self.silent >= 1.5  # noqa: PLR2004 - a second without a commit, and a half

    @property
    def stalled_for(self) -> str:
        return f"for {self.silent:.0f} s"

    @property
    def is_alone(self) -> bool:
        return bool(self.others) and len(self.others) == self.nodes - 1

    @property
    def away(self) -> str:
        """The nodes that do not take part, in words; empty if all do."""
        return ", ".join(f"{name}: {state}" for name, state in self.others)


class Rule(NamedTuple):
    """A condition and the sentence that it makes true."""

    fits: Callable[[Now], bool]
    says: Callable[[Now], str]


SILENT = Rule(
    lambda now: now.state == "does not answer",
    lambda now: (
        f"{now.node} does not answer{now.because}: no client can write until it is back or another node is promoted."
    ),
)
STATE = Rule(lambda now: bool(now.state), lambda now: f"{now.node} is {now.state}{now.because}.")

RATES = (
    Rule(lambda now: not now.clients, lambda _: "No clients are running: the lab is only watched."),
    Rule(lambda now: now.commits is None, lambda _: "The clients are starting."),
    Rule(
        lambda now: not now.commits and now.errors > 0,
        lambda now: f"The clients received {now.errors:.0f} errors in the last second and committed nothing.",
    ),
    Rule(lambda now: not now.commits, lambda _: "The clients committed nothing in the last second."),
    Rule(
        lambda now: now.law is not None and now.law == now.rate,
        lambda now: (
            f"The requested limit of {now.rate:g}/s is below what {now.clients} clients can commit at a round trip "
            f"of {now.waits:.3g} ms. Measured: {now.commits:.3g}/s."
        ),
    ),
    Rule(
        lambda now: now.law is not None and (now.commits or 0) >= NEAR * now.law,
        lambda now: (
            f"{now.clients} clients commit at most {now.clients} / {now.waits:.3g} ms = {now.law:.3g} times a "
            f"second. Measured: {now.commits:.3g}."
        ),
    ),
    Rule(
        lambda now: now.law is not None,
        lambda now: (
            f"A round trip of {now.waits:.3g} ms allows {now.law:.3g} commits a second. Measured: {now.commits:.3g}, "
            "so commits wait for something besides the link."
        ),
    ),
    Rule(
        lambda _: True,
        lambda now: (
            f"The clients commit {now.commits:.3g} times a second" + (f" of at most {now.rate:g}." if now.rate else ".")
        ),
    ),
)


def explain(now: Now, rules: Sequence[Rule]) -> list[str]:
    """Return a sentence about the state, by the rules of its kind, and one about the rate.

    Fewer if a lab has not answered yet.
    """
    of_state = (SILENT, *rules, STATE)
    return [sentence for each in (of_state, RATES) if (sentence := _first(each, now))]


def _first(rules: Sequence[Rule], now: Now) -> str:
    return next((rule.says(now) for rule in rules if rule.fits(now)), "")
