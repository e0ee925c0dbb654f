"""Nodes killed at the same time, and later restarted on their old data."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES
from replication_lab.world import at_once, clock
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

    def parts_of(self, node: str) -> Sequence[Service]:
        """Return the services that end with a node: its server alone."""
        return [self.lab.node(node)]

    def inject(self) -> None:
        self.each(self.end)
        for node in self.nodes:
            for service in self.parts_of(node):
                clock.wait_until(partial(has_ended, service), f"{service.name} to exit", END_SECONDS)

    def end(self, node: str) -> None:
        at_once.of_each(lambda service: service.kill(), self.parts_of(node))

    def acts(self, node: str) -> Proof:
        """Prove by the exit status of each container that the signal ended it, and nothing else did."""
        ends = {service.name: "{} with status {}".format(*service.state()) for service in self.parts_of(node)}
        said = ", ".join(f"{name} {end}" for name, end in ends.items()) if len(ends) > 1 else ends[next(iter(ends))]
        expected = f"exited with status {self.status}"
        return Proof(f"{node} is {self.said}", said, set(ends.values()) == {expected}, expected)

    def recover(self) -> None:
        self.each(lambda node: self.lab.node(node).start_again())


def has_ended(service: Service) -> bool:
    """Return whether the container of a service has exited."""
    return service.state()[0] == "exited"
