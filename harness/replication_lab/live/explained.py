"""What happens now, in at most two sentences, from the states of a lab: explained.txt.j2 filled in.

The first sentence is about the state, the second one about the rate. Each kind of replication has sentences of its own
about its states (`Nodes.explains`).
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from replication_lab.model.live.view import Span

# A second with this share of the law or more follows it.
NEAR = 0.8
SILENT = "does not answer"


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

    @property
    def lacking(self) -> list[str]:
        """The replicas that lack rows, as "NAME lacks (ROWS)"."""
        return [f"{name} lacks ({rows})" for name, rows in self.lag if rows]

    @property
    def lacks_unknown(self) -> bool:
        return any(rows is None for _, rows in self.lag)

    @property
    def is_near_the_law(self) -> bool:
        return self.law is not None and (self.commits or 0) >= NEAR * self.law


def explain(now: Now, kind: str) -> list[str]:
    """Return a sentence about the state, by what a kind of replication `explains`, and one about the rate.

    Fewer if a lab has not answered yet. A state that its kind does not explain is only named.
    """
    state = _told("silent" if now.state == SILENT else kind, now)
    if now.state and not state:
        state = f"{now.node} is {now.state}{now.because}."
    return [sentence for sentence in (state, _told("rate", now)) if sentence]


def _told(macro: str, now: Now) -> str:
    return " ".join(str(getattr(template("explained.txt.j2").module, macro)(now)).split()) if macro else ""


@cache
def template(name: str) -> Template:
    """Return a template of this folder, compiled once."""
    found = Environment(loader=PackageLoader("replication_lab", "live"), undefined=StrictUndefined, trim_blocks=True)
    found.filters["label"] = lambda said: said.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return found.get_template(name)
