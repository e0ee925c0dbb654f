"""Two primaries of one replicated disk, made on purpose: cut its link, promote the secondary, later discard one."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._nodes import OnNodes
from replication_lab.faults._replicated_disk import REPLICATED_DISK
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES, UNMANAGED
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd

NOTICED_SECONDS, MET_SECONDS = 30, 60


@fault(
    "drbd-split-brain",
    acts_on=NODES,
    does="the link is cut, and the target becomes a second primary; recovery restores the link "
    "and discards the changes of the target",
    proof="there are two primaries; after recovery: DRBD has reported the split brain on reconnecting",
    needs=(REPLICATED_DISK, UNMANAGED),
    one_target=True,
)
class SplitBrain(OnNodes):
    """The machine to promote beside the primary; it is the victim: recovery discards its own writes."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        (self.victim,) = (drbd.peers(lab)[node] for node in self.nodes)
        self._links = [
            lab.link(link.name) for node in lab.topology.nodes for link in lab.topology.links_from(node.name)
        ]
        self._detected = False

    def inject(self) -> None:
        for link in self._links:
            link.cut()
        clock.wait_until(self._is_alone, f"{self.victim.node} to lose its connection to the primary", NOTICED_SECONDS)
        self.victim.tell("promote")
        self.victim.wait_until_serves()

    def _is_alone(self) -> bool:
        return self.victim.status().peer_role != drbd.PRIMARY

    def verify(self) -> list[Proof]:
        found = {node: peer.status().role for node, peer in drbd.peers(self.lab).items()}
        return [
            Proof(
                what="there are two primaries",
                expected=f"{drbd.PRIMARY} on both machines",
                found=", ".join(f"{node} {role}" for node, role in found.items()),
                ok=set(found.values()) == {drbd.PRIMARY},
            )
        ]

    def recover(self) -> None:
        """Restore the link, wait until DRBD detects the split brain, and discard the victim's writes."""
        for link in self._links:
            link.enable()
        if not self.victim.status().primary:
            return
        clock.wait_until(self._is_detected, "the split brain to be detected", MET_SECONDS)
        self._detected = True
        replication.of(self.lab).take_back(self.victim.node, discard_errant=True)

    def _is_detected(self) -> bool:
        return any(peer.status().split_brain for peer in drbd.peers(self.lab).values())

    def verify_recovered(self) -> list[Proof]:
        return [
            Proof(
                what="DRBD detected the split brain when the machines reconnected",
                expected="detected",
                found="detected" if self._detected else "not detected",
                ok=self._detected,
            )
        ]
