"""One sample a second, made of what all watching threads saw last, and what is computed of it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from replication_lab import replication
from replication_lab.live import node_control
from replication_lab.live.explained import Now, explain
from replication_lab.live.link_control import LinkControl
from replication_lab.live.node_control import NodeControl
from replication_lab.live.node_watch import DiskWatch, NodeWatch
from replication_lab.live.roles import Roles, Route
from replication_lab.live.tally import Answers, LoadTally
from replication_lab.live.viewer_actions import ViewerActions
from replication_lab.model.drill.evidence import View
from replication_lab.model.drill.timeline import quantile
from replication_lab.model.lab.topology import RING
from replication_lab.model.live.view import Latency, Level, Track, ViewedNode, ViewedSample
from replication_lab.replication.kind import SILENT
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

MISSING = "missing"


@dataclass
class Sampler:
    """The lab's watched parts; `sample` makes the next sample of them, and `nodes` and `explained` describe it."""

    lab: Lab
    clients: int
    rate: float
    controls: Mapping[str, NodeControl]
    disks: Mapping[str, DiskWatch]
    links: Mapping[str, LinkControl]
    actions: ViewerActions
    began: float = field(default_factory=clock.timer)
    _last: float = field(default_factory=clock.timer)
    # By node: its state, and when that began.
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)
    _views: dict[str, View] = field(default_factory=dict)
    _waits: float | None = None
    _behind: dict[str, int | None] = field(default_factory=dict)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.kind, self.tally = replication.of(self.lab), LoadTally()
        self.route = Route(self.lab, self.kind.written_at())
        self.roles = Roles(self.lab, self.route)
        self.watches = {name: NodeWatch(self.lab, name) for name in self.kind.names}
        self.containers = self.lab.states()
        self.newest = ViewedSample(at=0.0)

    @property
    def at(self) -> float:
        """Seconds since the view began."""
        return round(clock.timer() - self.began, 3)

    def sample(self) -> ViewedSample:
        """Return the sample of the time since the last call."""
        now = clock.timer()
        seconds, self._last = max(now - self._last, 1e-3), now
        self.look()
        # The round trip that a commit of the load waits for.
        waits = None
        if self.kind.makes_commits_wait(said(self._views.get(self.route.node, SILENT))):
            trips = [self.links[name].watch.round_trip_ms for name in self.carrying if name in self.links]
            waits = waited(self.kind.waits_on, trips, len(self.lab.topology.nodes))
        # Other threads explain the lab meanwhile.
        self._waits = waits
        window = self.tally.take() if self.clients else Answers()
        self.newest = ViewedSample(
            at=self.at,
            commits_per_s=round(len(window.commits_ms) / seconds, 2) if self.clients else None,
            errors_per_s=round(window.errors / seconds, 2) if self.clients else None,
            law_per_s=law(self.clients, self.rate, self._waits),
            latency=latency_of(window.commits_ms),
            lag_s={name: self._views[name].behind_s for name in self.replicas},
            behind={name: self._behind.get(name) for name in self.replicas},
            round_trip_ms={name: link.watch.round_trip_ms for name, link in list(self.links.items())},
            bands=[Track(name, str(view), self.kind.level_of(said(view))) for name, view in self._views.items()],
        )
        return self.newest

    def look(self) -> None:
        """Take the nodes' newest views, and let the load follow the node that accepts writes."""
        with self._looking:
            now = clock.timer()
            seen = {name: watch.seen for name, watch in self.watches.items()}
            # That of a container that does not run is its container's state.
            self._views = {
                name: each.view if self.containers.get(name) == "running" else View(error=SILENT.error)
                for name, each in seen.items()
            }
            for name, view in self._views.items():
                if name not in self._since or self._since[name][0] != str(view):
                    self._since[name] = str(view), now
            states = {name: said(view) for name, view in self._views.items()}
            self.route.node = self.kind.written_by(states, self.route.node)
            written = seen[self.route.node].transactions
            counts = {name: each.transactions for name, each in seen.items()}
            self._behind = {
                name: None if written is None or count is None else max(0, written - count)
                for name, count in counts.items()
            }

    @property
    def replicas(self) -> list[str]:
        """The nodes whose lag is shown: replicas, and the members of a cluster that are not written to."""
        followers = self.kind.followers
        return [name for name in self._views if self.roles.roles.get(name) in followers and name != self.route.node]

    @property
    def carrying(self) -> list[str]:
        """The links that carry what clients write now from one node to another."""
        node, nodes = self.route.node, {each.name for each in self.lab.topology.nodes}
        return [
            name
            for name, (source, target) in self.roles.links.items()
            if {source, target} <= nodes and not name.endswith(RING) and self.kind.carries_writes(node, source, target)
        ]

    # -- described -------------------------------------------------------------------------------------------------

    def nodes(self) -> list[ViewedNode]:
        return [self._node(name, view) for name, view in self._views.items()]

    def _node(self, name: str, view: View) -> ViewedNode:
        state, role = self.containers.get(name, MISSING), self.roles.roles.get(name, "")
        writes_here, control = name == self.route.node, self.controls[name]
        return ViewedNode(
            name=name,
            role=role,
            at=state,
            state=str(view),
            level=self.kind.level_of(said(view)),
            writes_here=writes_here,
            lag_s=self.newest.lag_s.get(name),
            behind=self.newest.behind.get(name),
            actions=node_control.actions(state, role, self.kind, writes_here=writes_here, has_disks=name in self.disks),
            disks=self.disks[name].found if name in self.disks else [],
            asked=control.asked,
            seen=control.seen,
            says=control.says,
            busy=control.busy,
        )

    def explained(self) -> list[str]:
        """Return what happens now, in one or two sentences."""
        now, node = clock.timer(), self.route.node
        if node not in self._views:
            return []
        states = {name: said(view) for name, view in self._views.items()}
        acting = [span for span in self.actions.spans(self.at) if span.acts]
        # Those that are not well; one that was not heard of yet is left out.
        others = [
            (name, state)
            for name, state in states.items()
            if name != node and self.kind.level_of(state) not in (Level.GOOD, Level.UNKNOWN)
        ]
        return explain(
            Now(
                node=node,
                state=states[node],
                others=others,
                nodes=len(states),
                since=now - self._since[node][1],
                silent=now - self.tally.committed_at,
                clients=self.clients,
                rate=self.rate,
                commits=self.newest.commits_per_s if self.newest.at else None,
                errors=self.newest.errors_per_s or 0.0,
                waits=self._waits,
                law=self.newest.law_per_s,
                timeout_s=self.roles.timeout_s,
                acting=acting,
                lag=list(self.newest.behind.items()),
            ),
            self.kind.explains,
        )


def said(view: View) -> str:
    """Return a node's state without the number of nodes that it sees."""
    return view.error or view.says


# A commit waits for one of the links that carry it. Here is the place of its round trip in the list of theirs, the
# shortest first.
WAITS: Mapping[str, Callable[[int], int]] = {
    "nearest": lambda _nodes: 0,
    # The node itself needs no trip: of three nodes the nearest peer makes two.
    "majority": lambda nodes: nodes // 2 - 1,
    "farthest": lambda _nodes: -1,
}


def waited(waits_on: str, trips: Sequence[float | None], nodes: int) -> float | None:
    """Return the round trip in ms that each commit waits for; None if it waits for none, or for a silent link.

    `trips` are the round trips of the links that carry it to the other nodes; None for a link that is silent.
    """
    known = sorted(trip for trip in trips if trip is not None)
    if not known or not waits_on:
        return None
    place = WAITS[waits_on](nodes)
    return known[place] if place < len(known) else None


def law(clients: int, rate: float, trip_ms: float | None) -> float | None:
    """Return the most commits a second: clients / round trip, and at most the load's rate (0: no limit).

    None without clients, or if commits wait for no round trip.
    """
    if not clients or not trip_ms:
        return None
    most = clients * 1000 / trip_ms
    return round(min(most, rate) if rate else most, 3)


def latency_of(commits_ms: Sequence[float]) -> Latency | None:
    """Return the percentiles of one second's commits."""
    if not commits_ms:
        return None
    ordered = sorted(commits_ms)
    p50, p95, p99 = (quantile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Latency(p50, p95, p99, len(ordered))
