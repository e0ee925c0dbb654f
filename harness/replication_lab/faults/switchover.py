"""A planned switchover, as a step of a drill: another node accepts writes; recovery switches back."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._servers import OnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import Need
from replication_lab.witnesses import servers
from replication_lab.world.docker.lab import Lab
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
