"""A failover manager that is killed, while the servers go on."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults._cut_off import none_to_break
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import END_SECONDS, SIGKILL_STATUS, has_ended
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Service

AGAIN_SECONDS = 60


@fault(
    "manager-kill",
    acts_on=NODES,
    does="the failover manager gets SIGKILL: of a manager beside each node, those of the targets; recovery starts it",
    proof="exit status 137; after recovery: it tells its view",
)
class ManagerKill:
    """The programs of a manager to kill with SIGKILL."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        if lab.manager is None:
            raise none_to_break(lab, "manager")
        self._manager, self._services = lab.manager, lab.manager.beside(nodes)

    def inject(self) -> None:
        at_once.of_each(Service.kill, self._services)
        for service in self._services:
            clock.wait_until(partial(has_ended, service), f"{service.name} to exit", END_SECONDS)

    def verify(self) -> list[Proof]:
        """Prove by the exit status that the signal ended it, and nothing else did."""
        return [_killed(service) for service in self._services]

    def recover(self) -> None:
        for service in self._services:
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

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _killed(service: Service) -> Proof:
    found = service.state()
    said, expected = "{} with status {}".format(*found), f"exited with status {SIGKILL_STATUS}"
    return Proof(f"{service.name} is killed", said, found == ("exited", SIGKILL_STATUS), expected)
