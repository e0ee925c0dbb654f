"""A failover manager that is killed, while the servers go on."""

from collections.abc import Sequence

from replication_lab.faults.cut_off import none_to_break
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill, has_ended
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Service

AGAIN_SECONDS = 60


@fault(
    "manager-kill",
    acts_on=NODES,
    does="the failover manager gets SIGKILL: of a manager beside each node, those of the targets; recovery starts it",
    proof="exit status 137; after recovery: it tells its view",
)
class ManagerKill(Kill):
    """The programs of a manager to kill with SIGKILL."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        if lab.manager is None:
            raise none_to_break(lab, "manager")
        self._manager = lab.manager
        super().__init__(lab, [service.name for service in lab.manager.beside(nodes)])

    def parts_of(self, node: str) -> list[Service]:
        return [self.lab.service(node)]

    def recover(self) -> None:
        for service in map(self.lab.service, self.nodes):
            if has_ended(service):
                service.start_again()

    def verify_recovered(self) -> list[Proof]:
        """Wait until the manager tells its view again."""

        def tells() -> bool:
            try:
                return bool(self._manager.view())
            except LabError:
                return False

        clock.wait_until(tells, f"{self._manager.name} to tell its view", AGAIN_SECONDS, every=0.1)
        return [Proof(f"{self._manager.name} runs again", "it tells its view", tells(), "it tells its view")]
