"""Nodes whose hosts are lost: the server and all that runs beside it, such as an ssh server or a manager's agent."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults.fault import fault
from replication_lab.faults.kill import Kill
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import NODES
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Service

READY_SECONDS = 60


@fault(
    "host-kill",
    acts_on=NODES,
    does="the server and everything else on its host get SIGKILL, and the host's address is unreachable; recovery "
    "starts the host, then what was on it. For labs with a failover manager that has a program on each host",
    proof="exit status 137 of each container of the host; after recovery: the node serves again",
    ends_servers=True,
)
class HostKill(Kill):
    """Nodes to kill together with the containers that share their network."""

    said = "killed with its host"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._hosts = {node: self._host_of(node) for node in nodes}

    def _host_of(self, node: str) -> list[Service]:
        """Return the services of a node's host: the one that owns the network first."""
        owner = self.lab.service(node).network()
        if owner.id == self.lab.service(node).container.id:
            raise LabError(
                f"{self.lab.name} has no hosts around its servers: {node} is a container, which `kill` ends",
                "a failover manager with a program on each host",
                "./lab drill semisync --drill manager-host-killed --manager keepalived",
            )
        mode = f"container:{owner.id}"
        shared = [name for name, one in self.lab.containers.items() if one.attrs["HostConfig"]["NetworkMode"] == mode]
        first = next(name for name, one in self.lab.containers.items() if one.id == owner.id)
        return [self.lab.service(name) for name in (first, *sorted(shared))]

    def parts_of(self, node: str) -> list[Service]:
        return self._hosts[node]

    def recover(self) -> None:
        self.each(self._start)

    def _start(self, node: str) -> None:
        host, *others = self._hosts[node]
        host.start_again()
        # Packet rules of the host come first: what the server dials must not go past them.
        clock.wait_until(partial(_is_ready, host), f"{host.name} to be ready", READY_SECONDS, every=0.1)
        for service in others:
            service.start_again()


def _is_ready(service: Service) -> bool:
    """Return whether a container runs and, if it has a health check, is healthy."""
    status, _ = service.state()
    return status == "running" and (service.is_healthy() or not service.container.attrs["State"].get("Health"))
