"""A delayed replica: it applies each transaction some seconds after the source has committed it."""

from collections.abc import Sequence
from typing import Any

from replication_lab.faults._servers import REPLICAS, OnServers
from replication_lab.faults.fault import fault
from replication_lab.faults.thread_stop import refuse_to_lose_relay_log
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES, Setting
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server


def _check_delay(where: str, delay: Any) -> None:
    if delay < 1:
        raise DELAY.refusal(where, "applier-delay", delay, "seconds, at least 1")


DELAY = Setting("delay", 0, "the delay {}", _check_delay)


@fault(
    "applier-delay",
    acts_on=NODES,
    does="the replica applies each transaction `delay` seconds after the source committed it (SOURCE_DELAY)",
    proof="the delay is set and the threads run, also between the readings; after recovery: the applier has waited for "
    "it, and the previous delay is set",
    settings=(DELAY,),
    needs=(REPLICAS,),
)
class ApplierDelay(OnServers):
    """Replicas with a delay; recovery sets the one that they had."""

    def __init__(self, lab: Lab, nodes: Sequence[str], delay: int):
        super().__init__(lab, nodes)
        self._delay, self.state = delay, f"the applier is delayed by {delay:d} s"
        self._had = {node: self._delay_of(self.server(node)) for node in self.nodes}
        self._waited: dict[str, bool] = {}

    @staticmethod
    def _delay_of(server: Server) -> int | None:
        """Return the delay that is set; None on a node without a source."""
        found = Replica(server).status()
        return found.delay_seconds if found else None

    def begin(self, node: str) -> None:
        self._set(node, self._delay)

    def _set(self, node: str, delay: int) -> None:
        server = self.server(node)
        if not server.dialect.delay:
            raise LabError(f"{node} has no delayed replication", "MariaDB 10.2.3 or MySQL 5.6, or later")
        if server.dialect.delay_deletes_relay_log:
            refuse_to_lose_relay_log(self.lab, node)
        server.execute(*(each.format(seconds=delay) for each in server.dialect.delay))

    def contrary(self, node: str, server: Server) -> str:
        found = Replica(server).status()
        if found is None or not found.applying:
            return f"the delay of {node} did not act: its applier was stopped"
        delay = found.delay_seconds
        return "" if delay == self._delay else f"the delay of {node} was {delay:d} s, not {self._delay:d} s"

    def recover(self) -> None:
        # A node that was promoted meanwhile has no delay to wait for.
        following = [node for node in self.nodes if self.replica(node).status()]
        self._waited = {node: self.replica(node).waits_for_delay() for node in following}
        super().recover()

    def end(self, node: str) -> None:
        had = self._had[node]
        # A node that was promoted meanwhile, or that follows another source, has no delay any more.
        if had is not None and self._delay_of(self.server(node)) not in (None, had):
            self._set(node, had)

    def _had_effect(self, node: str) -> Proof | None:
        """Prove that the applier had something to wait for: a delay without transactions shows nothing."""
        if node not in self._waited:
            return None
        found = "a transaction that waited" if self._waited[node] else "none"
        return Proof(
            f"{node} has waited for its delay", found, self._waited[node], expected="a transaction that waited"
        )

    def hindrance(self, node: str) -> str:
        found, had = self._delay_of(self.server(node)), self._had[node]
        return "" if found in (None, had) else f"the delay is {found:d} s, not {had:d} s"
