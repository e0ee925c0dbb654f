"""A site cut off from the others, or lost, or with a wrong clock: its nodes and the links that lead out of it, as one.

In a lab on one engine each node is a site of its own.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack

from replication_lab.faults.clock_skew import OWN_CONTAINER, SKEW, ClockSkew
from replication_lab.faults.cut import Cut
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill
from replication_lab.model.core.proof import Proof
from replication_lab.world.docker import sites
from replication_lab.world.docker.lab import Lab


def nodes_of_sites(lab: Lab, nodes: Collection[str]) -> list[str]:
    """Return all nodes on the sites of these."""
    placed = sites.of(lab.name)
    there = [placed[node] for node in nodes if node in placed]
    return [each.name for each in lab.topology.nodes if each.name in nodes or placed.get(each.name) in there]


def links_out(lab: Lab, nodes: Collection[str]) -> list[str]:
    """Return the links that lead from one of these nodes to another one."""
    return [link.name for link in lab.topology.links if (link.source in nodes) != (link.target in nodes)]


@fault(
    "cut-site",
    does="all links that lead out of the sites of the targets are cut at once; links within a site are not",
    proof="of each link as for cut; after recovery: the round trips are as before",
)
class CutSite(Cut):
    """Nodes whose sites are cut off."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, links_out(lab, nodes_of_sites(lab, nodes)))


@fault(
    "clock-site",
    does="sets the wall clock of all servers on the sites of the targets `skew` seconds off, as that of their machine",
    proof="of each node as for clock",
    settings=(SKEW,),
    needs=(OWN_CONTAINER,),
    moves_clocks=True,
)
class ClockSite(ClockSkew):
    """Nodes whose sites have another time than the others."""

    def __init__(self, lab: Lab, nodes: Sequence[str], skew: int):
        super().__init__(lab, nodes_of_sites(lab, nodes), skew)


@fault(
    "lose-site",
    does="all links that lead out of the sites of the targets are cut, and at once all nodes there get SIGKILL",
    proof="of each node as for kill, of each link as for cut",
    ends_servers=True,
)
class LoseSite:
    """Nodes whose sites are lost: nothing that was under way in the network arrives after that."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        lost = nodes_of_sites(lab, nodes)
        self._links, self._nodes = Cut(lab, links_out(lab, lost)), Kill(lab, lost)

    def inject(self) -> None:
        # The links first: their Toxiproxy may be on another site, which takes longer to reach than rows are under way.
        self._links.inject()
        self._nodes.inject()

    def verify(self) -> list[Proof]:
        return [*self._links.verify(), *self._nodes.verify()]

    def recover(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._nodes.recover)
            stack.callback(self._links.recover)

    def verify_recovered(self) -> list[Proof]:
        """Prove the nodes first: across a link to a server that still starts, nothing comes back."""
        return [*self._nodes.verify_recovered(), *self._links.verify_recovered()]

    def close(self) -> None:
        with ExitStack() as stack:
            for each in (self._links, self._nodes):
                stack.callback(each.close)
