"""What happens now, in at most two sentences, from the states of a lab: rules, of which the first that fits counts.

The first sentence is about the state, the second one about the rate.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from replication_lab.model.live import Span
from replication_lab.model.live_rules import SEMISYNC_OFF, SEMISYNC_ON

# A second with this share of the law or more follows it.
NEAR = 0.8


class Now(NamedTuple):
    """What the rules look at; times are seconds. `state` is that of `node`, to which the clients write.

    `others` are the other nodes that are not well, of `nodes` in all. `since` is how long `node` has had this state,
    `silent` how long no commit was acknowledged. `waits` is the round trip in ms that a commit waits for. `timeout_s`
    is that of semi-sync. `acting` are the faults that act. `lag` has the transactions that each replica lacks, None if
    they cannot be counted.
    """

    replication: str
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


def _is(*kinds: str) -> Callable[[Now], bool]:
    return lambda now: now.replication in kinds


def _stalled_for(now: Now) -> str:
    return f"for {now.silent:.0f} s"


STATES = (
    Rule(
        lambda now: now.state == "does not answer",
        lambda now: (
            f"{now.node} does not answer{now.because}: no client can write until it is back or another node is "
            "promoted."
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == SEMISYNC_OFF,
        lambda now: (
            f"Semi-sync fell back to asynchronous {now.since:.0f} s ago"
            + (f" after waiting {now.timeout_s:g} s" if now.timeout_s else "")
            + f"{now.because}: commits are fast and unprotected."
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == SEMISYNC_ON and now.stalled,
        lambda now: (
            f"Commits have waited {_stalled_for(now)} for the acknowledgement of a replica{now.because}"
            + (
                f"; once the first of them has waited {now.timeout_s:g} s, the source continues without it."
                if now.timeout_s
                else "."
            )
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == SEMISYNC_ON and now.is_alone,
        lambda now: (
            f"{now.away}{now.because}: no replica can acknowledge a commit of {now.node}"
            + (f"; {now.timeout_s:g} s after its first wait the source continues without it." if now.timeout_s else ".")
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == SEMISYNC_ON and bool(now.others),
        lambda now: (
            f"{now.node} answers a commit once one of the other replicas has acknowledged it; {now.away}{now.because}."
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == SEMISYNC_ON,
        lambda now: (
            f"{now.node} answers a commit once a replica has acknowledged it: an acknowledged row is on two nodes."
        ),
    ),
    Rule(
        lambda now: _is("semisync")(now) and now.state == "serving",
        lambda now: f"{now.node} has no replica that acknowledges: a row is on one node when its commit is answered.",
    ),
    Rule(
        lambda now: _is("async")(now) and bool(now.others),
        lambda now: (
            f"{now.node} answers commits without its replicas; {now.away}{now.because}: rows written now are on "
            "one node fewer."
        ),
    ),
    Rule(
        lambda now: _is("async")(now) and any(rows for _, rows in now.lag),
        lambda now: (
            f"{now.node} answers commits without waiting: rows that "
            + " and ".join(f"{name} lacks ({rows})" for name, rows in now.lag if rows)
            + f" are lost if {now.node} is lost now."
        ),
    ),
    Rule(
        lambda now: _is("async")(now) and any(rows is None for _, rows in now.lag),
        lambda now: f"{now.node} answers commits without waiting; how many rows its replicas lack is unknown.",
    ),
    Rule(
        _is("async"),
        lambda now: f"{now.node} answers commits without waiting; its replicas had all rows when they last answered.",
    ),
    Rule(
        lambda now: _is("galera", "group")(now) and now.stalled,
        lambda now: (
            f"No commit was acknowledged {_stalled_for(now)}{now.because}: the cluster waits until it has excluded "
            "the nodes that do not answer."
        ),
    ),
    Rule(
        lambda now: _is("galera", "group")(now) and bool(now.others),
        lambda now: f"The cluster continues without some of its nodes ({now.away}){now.because}.",
    ),
    Rule(
        _is("galera"),
        lambda now: f"{now.node} answers a commit once every node of the cluster has received it.",
    ),
    Rule(
        _is("group"),
        lambda now: f"{now.node} answers a commit once a majority of the group has received it.",
    ),
    Rule(
        lambda now: _is("drbd")(now) and "Sync" in now.state,
        lambda now: (
            f"{now.node} sends the peer's disk what it missed ({now.state}){now.because}: until that is done, the peer "
            "cannot take over."
        ),
    ),
    Rule(
        lambda now: _is("drbd")(now) and "Connected" not in now.state,
        lambda now: (
            f"{now.node} writes to its own disk only ({now.state}){now.because}: the peer's disk becomes stale."
        ),
    ),
    Rule(
        lambda now: _is("drbd")(now) and now.stalled,
        lambda now: f"Commits have waited {_stalled_for(now)} for the peer's disk{now.because}.",
    ),
    Rule(
        lambda now: _is("drbd")(now) and bool(now.others),
        lambda now: (
            f"{now.away}{now.because}: commits wait until DRBD on {now.node} has noticed that, then {now.node} writes "
            "to its own disk only."
        ),
    ),
    Rule(
        _is("drbd"),
        lambda now: f"{now.node} answers a commit once it is on the disks of both machines.",
    ),
    Rule(lambda now: bool(now.state), lambda now: f"{now.node} is {now.state}{now.because}."),
)

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


def explain(now: Now) -> list[str]:
    """Return a sentence about the state and one about the rate; fewer if a lab has not answered yet."""
    return [sentence for rules in (STATES, RATES) if (sentence := _first(rules, now))]


def _first(rules: Sequence[Rule], now: Now) -> str:
    return next((rule.says(now) for rule in rules if rule.fits(now)), "")
