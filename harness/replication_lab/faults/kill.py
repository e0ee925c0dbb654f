"""Nodes killed at the same time, and later restarted on their old data."""

from functools import partial

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock
from replication_lab.world.docker.service import Service

SIGKILL_STATUS = 137
END_SECONDS = 60


@fault(
    "kill",
    acts_on=NODES,
    does="all targets get SIGKILL at the same moment; recovery starts the same containers on the same data",
    proof="exit status 137; after recovery: the node serves again",
    ends_servers=True,
)
class Kill(OnNodes):
    """Nodes to kill with SIGKILL; recovery starts the same containers on the same data."""

    status, said = SIGKILL_STATUS, "killed"

    def inject(self) -> None:
        self.each(self.end)
        for node in self.nodes:
            clock.wait_until(partial(self._has_ended, node), f"{node} to exit", END_SECONDS)

    def _has_ended(self, node: str) -> bool:
        return self.lab.node(node).state()[0] == "exited"

    def end(self, node: str) -> None:
        self.lab.node(node).kill()

    def acts(self, node: str) -> Proof:
        """Prove by the exit status that the signal ended the container, and nothing else did."""
        found = self.lab.node(node).state()
        return Proof(
            what=f"{node} is {self.said}",
            expected=f"exited with status {self.status}",
            found="{} with status {}".format(*found),
            ok=found == ("exited", self.status),
        )

    def recover(self) -> None:
        self.each(lambda node: self.lab.node(node).start_again())


def has_ended(service: Service) -> bool:
    """Return whether the container of a service has exited."""
    return service.state()[0] == "exited"
