"""A group in which every member accepts writes; recovery leaves it one primary again."""

from collections.abc import Sequence

from replication_lab.faults._servers import OnServers
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import Need
from replication_lab.replication.group import PRIMARY, member
from replication_lab.world import requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

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

    def hindrance(self, node: str) -> str:
        primaries = member(self.server(node), self.lab.node_at).primaries
        return "" if primaries == (self._only,) else f"it names the primaries {', '.join(primaries) or 'none'}"
