"""Less CPU for nodes: a CPU limit on their running containers."""

from collections.abc import Sequence

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world.docker.lab import Lab

# As a share of one CPU. With a hundredth of a CPU a server answers, but makes hardly any progress.
CPU_SHARE, PERIOD_US = 0.05, 100_000


@fault(
    "cpu",
    acts_on=NODES,
    does="the node is limited to a twentieth of a CPU",
    proof="the limit is set and has throttled the server; after recovery: the previous limit is set",
)
class CpuSqueeze(OnNodes):
    """Nodes that get a share of a CPU, by default a twentieth; recovery restores their previous limit."""

    def __init__(self, lab: Lab, nodes: Sequence[str], share: float = CPU_SHARE):
        super().__init__(lab, nodes)
        self.share, self._quota_us = share, round(share * PERIOD_US)
        self._had = {node: lab.node(node).cpu_quota_us() for node in self.nodes}
        self._throttled: dict[str, int] = {}

    def inject(self) -> None:
        self._throttled = {node: self.lab.node(node).throttled() for node in self.nodes}
        self.each(lambda node: self.lab.node(node).limit_cpu(self._quota_us, PERIOD_US))

    def acts(self, node: str) -> Proof:
        """Prove that the limit is set; at the fault's end its throttling of the server is proved."""
        quota = self.lab.node(node).cpu_quota_us()
        return Proof(
            what=f"{node} is limited to {self.share:g} of a CPU",
            expected=f"{self._quota_us} µs in each {PERIOD_US} µs",
            found=f"{quota} µs in each {PERIOD_US} µs" if quota > 0 else "no limit",
            ok=quota == self._quota_us,
        )

    def recover(self) -> None:
        try:
            self._waited = {name: self.lab.node(name).throttled() - then for name, then in self._throttled.items()}
        finally:
            # Also if the throttling cannot be read: an experiment measures its next case on the same lab.
            self.each(lambda node: self.lab.node(node).limit_cpu(self._had[node], PERIOD_US))

    def _had_effect(self, node: str) -> Proof:
        waited = self._waited[node]
        return Proof(
            what=f"{node} reached its CPU limit",
            expected="at least one throttled period",
            found=f"{waited} throttled periods",
            ok=waited > 0,
        )

    def is_undone(self, node: str) -> Proof:
        quota, had = self.lab.node(node).cpu_quota_us(), self._had[node]
        return Proof(
            what=f"{node} has its previous CPU limit again", expected=f"{had} µs", found=f"{quota} µs", ok=quota == had
        )
