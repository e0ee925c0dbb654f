"""Faults of who accepts writes: another node, every node, or nodes that continue without the others."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._servers import OnServers, StaysOnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import Need
from replication_lab.replication.group import PRIMARY, member
from replication_lab.witnesses import servers
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.server import Server

SWITCHES = Need(
    "nodes that can take over as planned",
    lambda topology, _: replication.kind_of(topology).can_switch_over(),
    "{fault} in {topology}, where no node takes over from another",
    "source and replicas, a group, or two machines",
)


@fault(
    "switchover",
    does="the node accepts writes in place of the one that does, as planned (`lab switchover`); recovery switches back",
    proof="the node accepts writes, and the one before refuses them, also between the readings; after recovery: the "
    "other way round",
    needs=(SWITCHES,),
    one_target=True,
)
class Switchover(OnServers):
    """The node that takes over. A switchover that is refused changes nothing, so there is nothing to recover from."""

    state = "it accepts writes"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._kind = replication.of(lab)
        self._old = self._kind.written_at()

    def begin(self, node: str) -> None:
        if self._old == node:
            raise LabError(f"{node} accepts writes already", "another node", "./lab status")
        self._kind.switch_over(node)
        servers.hold(self.lab, self._old, self, self._refuses_writes)

    def _refuses_writes(self, server: Server) -> str:
        """Return that the old node accepts writes; the server of a machine that was demoted does not answer."""
        return f"{self._old} accepted writes as well" if _takes_writes(server) else ""

    def contrary(self, node: str, server: Server) -> str:
        return "" if _takes_writes(server) else f"{node} refused writes"

    def end(self, node: str) -> None:
        if self._kind.written_at() == node != self._old:
            self._kind.switch_over(self._old)

    def release(self) -> None:
        super().release()
        servers.release(self.lab, self._old, self)

    def hindrance(self, _node: str) -> str:
        now = self._kind.written_at()
        return "" if now == self._old else f"{now} accepts writes"


def _takes_writes(server: Server) -> bool:
    return server.settings("read_only") == {"read_only": "OFF"}


ROLE_SECONDS = 60
GROUP = Need(
    "nodes of a group",
    lambda topology, _: topology.replication == "group",
    "{fault} in {topology}",
    "the topology group",
)


@fault(
    "multi-primary",
    does="the group is switched to multi-primary mode, so every member accepts writes; recovery switches back to one "
    "primary, the target",
    proof="every member is a primary, also between the readings; after recovery: only the target is",
    needs=(GROUP,),
    one_target=True,
)
class MultiPrimary(OnServers):
    """All members of a group, and the one that is the primary afterwards."""

    state = "a primary beside the others"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, [node.name for node in lab.topology.nodes])
        (self._only,) = nodes

    def inject(self) -> None:
        self._switch("SELECT group_replication_switch_to_multi_primary_mode()")
        super().inject()

    def _switch(self, statement: str) -> None:
        """Change the mode, by which the roles of all members change."""
        with requests_made.noted("primary", self._only):
            self.server(self._only).execute(statement)

    def begin(self, node: str) -> None:
        self.wait_for_state(node, f"{node} to be a primary", ROLE_SECONDS)

    def contrary(self, node: str, server: Server) -> str:
        return "" if (role := member(server).role) == PRIMARY else f"the role of {node} was {role or 'unknown'}"

    def recover(self) -> None:
        self.release()
        uuid = self.server(self._only).value("SELECT @@server_uuid")
        self._switch(f"SELECT group_replication_switch_to_single_primary_mode('{uuid}')")

    def end(self, node: str) -> None:
        """Do nothing: one statement has switched all members back."""

    def hindrance(self, node: str) -> str:
        primaries = member(self.server(node), self.lab.node_at).primaries
        return "" if primaries == (self._only,) else f"it names the primaries {', '.join(primaries) or 'none'}"


# The longest time until a node that reaches no other knows that it has no majority, and until it goes on.
ALONE_SECONDS = 60
GALERA = Need(
    "nodes of a Galera cluster",
    lambda topology, _: topology.replication == "galera",
    "{fault} in {topology}",
    "a Galera cluster, such as the topology galera",
)


@fault(
    "bootstrap",
    does="each of the nodes, which have no majority, is bootstrapped (`pc.bootstrap`): it continues without the other "
    "nodes. Nothing undoes it",
    proof="the node is Primary, also between the readings",
    needs=(GALERA,),
)
class Bootstrap(StaysOnServers):
    """Nodes that were bootstrapped. A node that never loses its majority is an error."""

    state = "Primary"
    afterwards = "Primary"

    def begin(self, node: str) -> None:
        told = GaleraNode(self.server(node))
        clock.wait_until(lambda: not told.status().primary, f"{node} to have no majority", ALONE_SECONDS)
        self.server(node).execute(told.bootstrap)
        clock.wait_until(lambda: told.status().primary, f"{node} to continue alone", ALONE_SECONDS)

    def contrary(self, node: str, server: Server) -> str:
        return "" if GaleraNode(server).status().primary else f"{node} was non-Primary"
