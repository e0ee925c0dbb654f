"""Power loss of machines and of the disks under them at the same time: unflushed data of the disks are lost too."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._replicated_disk import REPLICATED_DISK
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES, UNMANAGED
from replication_lab.world.docker.lab import Lab
from replication_lab.world.machines import drbd


@fault(
    "power-cut",
    acts_on=NODES,
    does="machines and their disks lose power, and all unflushed data is lost; "
    "recovery starts them and makes the old primary primary again",
    proof="the machines exit with status 137, and their disks have stopped; after recovery: the server answers again",
    needs=(REPLICATED_DISK, UNMANAGED),
    ends_servers=True,
)
class PowerCut(Kill):
    """Machines of a DRBD resource; recovery makes the former primary primary again, unless another was promoted."""

    said = "without power"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        peers = drbd.peers(lab)
        self._peers = {node: peers[node] for node in self.nodes}
        self._primary = ""
        self._lost: dict[str, int] = {}

    def inject(self) -> None:
        self._primary = drbd.primary(self.lab).node
        super().inject()

    def end(self, node: str) -> None:
        """End the machine before its disk: a machine without its disk answers no command."""
        super().end(node)
        with self.lab.service(f"{node}-{drbd.DISK}").ending():
            self._lost[node] = self._peers[node].disk.power_cut()

    def verify(self) -> list[Proof]:
        return [*super().verify(), *(self._without_disk(node) for node in self.nodes)]

    def _without_disk(self, node: str) -> Proof:
        state = self.lab.service(f"{node}-{drbd.DISK}").state()[0]
        return Proof(
            what=f"the disk of {node} is without power",
            expected="exited",
            found=f"{state}; blocks of {self._lost[node]} bytes were not flushed",
            ok=state == "exited",
        )

    def recover(self) -> None:
        for peer in self._peers.values():
            peer.power_on()
        # Unless another machine was promoted during the fault.
        if not any(peer.status().primary for peer in drbd.peers(self.lab).values()):
            drbd.wait_until_whole(self.lab)
            replication.of(self.lab).take_over(self._primary)
